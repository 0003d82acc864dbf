#!/usr/bin/env python3
"""Lists files over 600 lines: a second concept may be hiding in each. Never fails.

    file_length.py [ROOT]
"""

from __future__ import annotations

import sys
from pathlib import Path

LIMIT = 600
FOLDERS = ("src", "capi", "include", "tools", "bindings", "samples", "tests")
SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".py", ".cmake", ".sh"}


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2])
    count = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                count += 1
                lines = len(path.read_text(errors="replace").splitlines())
                if lines > LIMIT:
                    print(f"warning: {path.relative_to(root)} has {lines} lines")
    print(f"file_length: {count} files looked at")
    return 0


if __name__ == "__main__":
    sys.exit(main())
