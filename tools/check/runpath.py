#!/usr/bin/env python3
"""Checks where programs and libraries look for others: absolute folders or ones beside themselves.

    runpath.py [--relocatable] FILE...    --relocatable: beside themselves alone

An empty entry, and one that is relative, is the directory that a process happens to be in.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def entries(file: str) -> list[str]:
    output = subprocess.run(["readelf", "-d", file], check=True, capture_output=True, text=True).stdout
    paths = re.findall(r"\((?:RUNPATH|RPATH)\)\s+Library \w+: \[(.*)\]", output)
    return [entry for path in paths for entry in path.split(":")]


def main() -> int:
    arguments = sys.argv[1:]
    allowed = r"\$ORIGIN(/|$)" if "--relocatable" in arguments else r"(\$ORIGIN(/|$)|/)"
    files = [argument for argument in arguments if argument != "--relocatable"]
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = 0
    for file in files:
        for entry in entries(file):
            if not re.match(allowed, entry):
                print(f"{Path(file).name}: looks for libraries in '{entry}'")
                wrong += 1
    print(f"{len(files)} files, {wrong} entries that should not be there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
