#!/usr/bin/env python3
"""Compiles and runs the code blocks of README.md, and of Python those of the binding's, so that what is shown
there works. Blocks of Python that import nothing are parts of a program, and left out.

    readme.py BUILD_DIR [c|python]     python needs the binding on PYTHONPATH
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


FILES = {"c": ["README.md"], "python": ["README.md", "bindings/python/README.md"]}


def blocks(language: str, file: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / file).read_text(), re.M | re.S)


def all_blocks(language: str) -> list[str]:
    found = [block for file in FILES[language] for block in blocks(language, file)]
    return [block for block in found if language != "python" or block.startswith(("import ", "from "))]


def run_c(build: Path) -> None:
    for text in all_blocks("c"):
        with tempfile.TemporaryDirectory() as directory:
            source, program = Path(directory, "readme.c"), Path(directory, "readme")
            source.write_text(text)
            library = build / "lib"
            subprocess.run([os.environ.get("CC", "cc"), "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror",
                            f"-I{ROOT / 'include'}", str(source), "-o", str(program), f"-L{library}", "-lxcrt",
                            f"-Wl,-rpath,{library}"], check=True)
            subprocess.run([str(program)], check=True, cwd=ROOT)


def run_python() -> None:
    for text in all_blocks("python"):
        subprocess.run([sys.executable, "-c", text], check=True, cwd=ROOT)


def main() -> int:
    build, what = Path(sys.argv[1]).resolve(), sys.argv[2]
    for file in FILES[what]:
        if not blocks(what, file):
            print(f"{file} has no block of {what}")
            return 1
    run_c(build) if what == "c" else run_python()
    return 0


if __name__ == "__main__":
    sys.exit(main())
