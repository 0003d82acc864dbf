#!/usr/bin/env python3
"""Holds src/ops/OPERATORS.md against what the tool prints: `op_table.py XC [--fix]`, XC the built tool.

Exits with 1 and says what differs; --fix writes the file.
"""

import difflib
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "src/ops/OPERATORS.md"
HEAD = """# Operators

Written by `tools/check/op_table.py build/release/bin/xc --fix` from `xc inspect --ops`; CTest `op_table` checks it.

Versions are those of the standard, all of which are read. Types are those of the required inputs in order, the last
standing for those that follow, where inference says so by type alone. Implementations are asked in this order, each says
no with a reason (`xc explain`); "import" is rewritten into other operators as a file is read, "runtime" is control flow
and containers. Operators that fuse become part of compiled regions; views cost nothing.

"""


def main() -> int:
    printed = subprocess.run([sys.argv[1], "inspect", "--ops"], check=True, capture_output=True, text=True).stdout
    wanted = HEAD + printed
    if "--fix" in sys.argv[2:]:
        TABLE.write_text(wanted)
        return 0
    now = TABLE.read_text() if TABLE.exists() else ""
    if now == wanted:
        return 0
    sys.stdout.writelines(difflib.unified_diff(now.splitlines(True), wanted.splitlines(True), str(TABLE), "xc inspect --ops"))
    print(f"\nrun {Path(__file__).name} {sys.argv[1]} --fix")
    return 1


if __name__ == "__main__":
    sys.exit(main())
