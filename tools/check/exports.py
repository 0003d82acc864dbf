#!/usr/bin/env python3
"""Checks that a shared library exports exactly the listed symbols.

    exports.py LIBRARY LIST        LIST: a file with one symbol per line, '#' starts a comment
    exports.py LIBRARY =SYMBOL...  the symbols themselves
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def listed(arguments: list[str]) -> set[str]:
    if arguments and arguments[0].startswith("="):
        return {argument.lstrip("=") for argument in arguments}
    lines = Path(arguments[0]).read_text().splitlines() if Path(arguments[0]).is_file() else []
    return {line.strip() for line in lines if re.match(r"[A-Za-z_]", line)}


def exported(library: str) -> set[str]:
    output = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                            text=True).stdout
    # "ADDRESS KIND NAME[@@VERSION]"; A marks a version node.
    rows = [line.split() for line in output.splitlines()]
    return {row[-1].split("@")[0] for row in rows if len(row) == 3 and row[1] != "A"}


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    want, have = listed(sys.argv[2:]), exported(sys.argv[1])
    name = Path(sys.argv[1]).name
    for symbol in sorted(want - have):
        print(f"{name}: {symbol} is listed but not exported (defined? extern \"C\"? XC_API?)")
    for symbol in sorted(have - want):
        print(f"{name}: {symbol} is exported but not listed")
    print(f"{name}: {len(have)} exported symbols, {len(want)} listed")
    return 0 if want == have else 1


if __name__ == "__main__":
    sys.exit(main())
