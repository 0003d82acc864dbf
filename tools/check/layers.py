#!/usr/bin/env python3
"""Checks that every folder includes only what lies below it, and calls nothing that does nothing there.

The table MAY_INCLUDE is the order of layers; it is transitive. Usage:
    layers.py [ROOT]        exit 1 and one line per offending #include
    layers.py --self-test   shows that a planted violation is found
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

# Folder below src -> what it may include besides itself: a folder, or one header.
BACKEND_INTERFACE = {"backends/host_speed.h", "backends/step.h", "backends/backend.h", "backends/device.h"}
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "cache": {"base"},
    "tensor": {"base"},
    "loop": {"tensor"},
    "ir": {"tensor"},
    "images": set(),
    "ops": {"ir", "loop", "images/images.h"},
    "passes": {"ops"},
    "formats": {"ops"},
    "backends": {"ops"},
    "plan": {"passes"} | BACKEND_INTERFACE,
    "codegen": {"loop"},
    "profile": {"plan"},
    "runtime": {"plan", "profile", "formats"},
    "tier": {"runtime", "cache", "codegen/codegen.h"},
    "capi": {"runtime", "tier", "cache"},
}
# These see the public headers and themselves, nothing of src.
PUBLIC_ONLY = ("bindings", "samples", "tools")
# A library's headers stay in the one folder that wraps it.
OWNED_LIBRARIES = {
    "llvm": {"codegen"},
    "oneapi": {"backends"},
    "dnnl": {"backends"},
    "cuda": {"backends"},
    "protozero": {"formats"},
    "re2": {"ops"},
    "kissfft": {"ops"},
    "jpeglib": {"images"},
    "openjpeg": {"images"},
    "png": {"images"},
    "tiffio": {"images"},
    "webp": {"images"},
}
# Calls that only one header may make -> the header, and why.
WRAPPED_CALLS = {
    re.compile(r"\batexit\s*\("): ("src/base/at_exit.h", "does nothing in the shared libraries"),
}
SOURCE_SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".cu", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def closure(folder: str) -> set[str]:
    """Everything `folder` may include: folders and single headers."""
    allowed: set[str] = set()
    pending = [folder]
    while pending:
        item = pending.pop()
        if item not in allowed:
            allowed.add(item)
            pending.extend(MAY_INCLUDE.get(item, ()))
    return allowed


def includes(path: Path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def wrapped_calls(path: Path):
    """Line, header and reason of calls in WRAPPED_CALLS; comments are no calls."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        for call, (header, why) in WRAPPED_CALLS.items():
            if call.search(line.split("//")[0]):
                yield number, header, why


def sources(directory: Path):
    return sorted(p for p in directory.rglob("*") if p.suffix in SOURCE_SUFFIXES and p.is_file())


def internal_name(root: Path, includer: Path, name: str) -> str | None:
    """Path of an included header relative to src (or to the root for capi); None for others."""
    src = root / "src"
    # The order in which the compiler looks: beside the includer, then src, then the root.
    for base in (includer.parent, src, root):
        target = (base / name).resolve()
        if target.is_file():
            for top in (src, root):
                if target.is_relative_to(top.resolve()):
                    return target.relative_to(top.resolve()).as_posix()
    return None


def check(root: Path) -> list[str]:
    problems: list[str] = []

    def report(path: Path, number: int, text: str) -> None:
        problems.append(f"{path.relative_to(root)}:{number}: {text}")

    src = root / "src"
    folders = sorted(p for p in src.iterdir() if p.is_dir()) if src.is_dir() else []
    if (root / "capi").is_dir():
        folders.append(root / "capi")
    for directory in folders:
        folder = directory.name
        if folder not in MAY_INCLUDE:
            problems.append(f"src/{folder}: no row in the table of tools/check/layers.py")
            continue
        allowed = closure(folder)
        for path in sources(directory):
            own = path.relative_to(src).as_posix() if path.is_relative_to(src) else ""
            for number, header, why in wrapped_calls(path):
                if path != root / header:
                    report(path, number, f"this call {why}; see {header}")
            for number, quote, name in includes(path):
                owners = OWNED_LIBRARIES.get(re.split(r"[/.]", name)[0])
                if quote == "<" and owners is not None and folder not in owners:
                    report(path, number, f"<{name}> belongs to src/{', '.join(sorted(owners))} alone")
                target = internal_name(root, path, name)
                if quote == "<" or target is None or target.startswith("include/"):
                    continue
                top = target.split("/")[0]
                if top not in allowed and target not in allowed:
                    report(path, number, f'{folder} may not include "{target}"; it may include '
                                         f"{', '.join(sorted(allowed - {folder}))}")
                # The interface that plan sees must not pull in an implementation.
                if own in BACKEND_INTERFACE and top == "backends" and target not in BACKEND_INTERFACE:
                    report(path, number, f'{own} is seen by plan and may not include "{target}"')
    for path in sources(root / "include"):
        for number, quote, name in includes(path):
            if not (name.startswith("xc/") or quote == "<"):
                report(path, number, f'a public header may not include "{name}"')
            elif name.startswith("xc/") and not (root / "include" / name).is_file():
                report(path, number, f'"{name}" is no public header')
    for top in PUBLIC_ONLY:
        if not (root / top).is_dir():
            continue
        for path in sources(root / top):
            for number, quote, name in includes(path):
                target = internal_name(root, path, name) if quote == '"' else None
                if target is not None and not target.startswith((top + "/", "include/")):
                    report(path, number, f'{top} sees the public headers only, not "{target}"')
    return problems


def self_test() -> int:
    """Plants one violation of each kind and expects each to be reported."""
    files = {
        "src/base/a.h": "#pragma once\n",
        "src/base/at_exit.h": "inline void at_exit(void (*f)()) { atexit(f); }\n",
        "src/base/exits.cpp": "// std::atexit()\nvoid f() { at_exit(g); }\nvoid h() { std::atexit(g); }\n",
        "src/tensor/t.h": '#include "base/a.h"\n',
        "src/base/bad.cpp": '#include "tensor/t.h"\n',
        "src/plan/p.cpp": '#include "base/a.h"\n#include "backends/step.h"\n',
        "src/plan/bad.cpp": '#include "backends/cpu/kernels.h"\n#include <llvm/IR/Module.h>\n',
        "src/backends/step.h": '#include "backends/cpu/kernels.h"\n',
        "src/backends/cpu/kernels.h": '#include "../../tensor/t.h"\n',
        "include/xc/xc.h": '#include <stdint.h>\n#include "base/a.h"\n',
        "tools/xc/main.cpp": '#include "base/a.h"\n#include <xc/xc.h>\n',
    }
    expected = ["include/xc/xc.h:2", "src/backends/step.h:1", "src/base/bad.cpp:1", "src/base/exits.cpp:3", "src/plan/bad.cpp:1",
                "src/plan/bad.cpp:2", "tools/xc/main.cpp:1"]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = sorted(":".join(problem.split(":")[:2]) for problem in check(root))
    if found != expected:
        print(f"self-test failed\nexpected {expected}\nfound    {found}")
        return 1
    print(f"self-test: all {len(expected)} planted violations found, nothing else reported")
    return 0


def main() -> int:
    if "--self-test" in sys.argv:
        return self_test()
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
    problems = check(root)
    print("\n".join(problems) or "layers: every include points downwards")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
