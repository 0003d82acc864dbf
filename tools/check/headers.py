#!/usr/bin/env python3
"""Compiles every public header alone, included twice: the C ones as C99 and as C++20, the others as C++20.

    headers.py C_COMPILER CXX_COMPILER
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "include"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Werror"]


def compiles(compiler: str, language: str, standard: str, header: Path) -> bool:
    line = f"#include <{header.relative_to(INCLUDE)}>\n"
    result = subprocess.run([compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only",
                             f"-I{INCLUDE}", "-"], input=line * 2, text=True, capture_output=True)
    if result.returncode != 0:
        print(f"{header.name} does not stand alone as {standard}:\n{result.stderr}")
    return result.returncode == 0


def main() -> int:
    c, cxx = sys.argv[1:]
    headers = sorted((INCLUDE / "xc").glob("*.h"))
    wrappers = sorted((INCLUDE / "xc").glob("*.hpp"))
    results = [compiles(c, "c", "c99", header) for header in headers]
    results += [compiles(cxx, "c++", "c++20", header) for header in headers + wrappers]
    print(f"headers: {len(headers)} of C, {len(wrappers)} of C++")
    return 0 if headers and wrappers and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
