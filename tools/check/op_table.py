#!/usr/bin/env python3
"""Holds src/ops/OPERATORS.md and the table in README.md against what the tool prints: `op_table.py XC [--fix]`, XC the
built tool.

Exits with 1 and says what differs; --fix writes the files.
"""

import difflib
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/ops/OPERATORS.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- written by tools/check/op_table.py -->\n", "<!-- end of what op_table.py writes -->\n"
HEAD = """# Operators

Written by `tools/check/op_table.py build/release/bin/xc --fix` from `xc inspect --ops`; CTest `op_table` checks it.

Versions are those of the standard, all of which are read. Types are those of the required inputs in order, the last
standing for those that follow, where inference says so by type alone. Implementations are asked in this order, each says
no with a reason (`xc explain`); "import" is rewritten into other operators as a file is read, "runtime" is control flow
and containers. Operators that fuse become part of compiled regions; views cost nothing.

"""


def printed(*options: str) -> str:
    command = [sys.argv[1], "inspect", "--ops", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def summary() -> str:
    """Operators per domain: how many there are, run on own or oneDNN kernels, become part of fused regions."""
    domains = defaultdict(list)
    for row in json.loads(printed("--json")):
        if row["domain"] != "xc":
            domains[row["domain"] or "ai.onnx"].append(row)
    lines = ["| domain | operators | versions | supported | on fast kernels | fuse | not there |",
             "|---|---|---|---|---|---|---|"]
    for domain, rows in sorted(domains.items()):
        there = [row for row in rows if row["implementations"]]
        slow = {"reference", "runtime", "import", "expanded"}
        fast = sum(1 for row in there if not slow.issuperset(row["implementations"]))
        fused = sum(1 for row in there if row["fusion"])
        versions = [version for row in rows for version in row["versions"]]
        missing = ", ".join(row["name"] for row in rows if not row["implementations"]) or "-"
        lines.append(f"| {domain} | {len(rows)} | {min(versions)} to {max(versions)} | {len(there)} | {fast} | {fused} | "
                     f"{missing} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    readme = README.read_text()
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    wanted = {TABLE: HEAD + printed(), README: before + BEGIN + summary() + END + after}
    if "--fix" in sys.argv[2:]:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    status = 0
    for path, text in wanted.items():
        now = path.read_text() if path.exists() else ""
        if now != text:
            status = 1
            sys.stdout.writelines(difflib.unified_diff(now.splitlines(True), text.splitlines(True), str(path),
                                                       "xc inspect --ops"))
    if status:
        print(f"\nrun {Path(__file__).name} {sys.argv[1]} --fix")
    return status


if __name__ == "__main__":
    sys.exit(main())
