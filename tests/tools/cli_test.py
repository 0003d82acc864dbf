#!/usr/bin/env python3
"""The xc tool as a user meets it: output, exit status, error lines. Standard library only.

    cli_test.py PATH_OF_XC [unittest options]
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

XC = Path(sys.argv.pop(1)).resolve()

AFFINE = """graph affine(%x: f32[n, 2]) -> (%y) {
  const %b: f32[2] = [10, -2]
  %s: f32[n, 2] = Add(%x, %b)
  %y: f32[n, 2] = Relu(%s)
}
"""
BAD_INDEX = """graph pick(%x: f32[4], %i: i64[k]) -> (%y) {
  %y = Gather(%x, %i) {axis = 0}
}
"""
KERNEL = """kernel relu(n) {
  in x: f32[1]
  out y: f32[1]
  for i = 0 .. n {
    y[i] = max(x[i], 0:f32)
  }
}
"""


def npy(descr: str, shape: tuple[int, ...], data: bytes, fortran: bool = False) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def floats(*values: float, order: str = "<") -> bytes:
    return struct.pack(f"{order}{len(values)}f", *values)


class Tool(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        self.model = self.write("affine.xct", AFFINE)
        self.good = {"in_x": npy("<f4", (2, 2), floats(1, 5, -20, 0)),
                     "out_y": npy("<f4", (2, 2), floats(11, 3, 0, 0))}

    def write(self, name: str, text: str | bytes) -> str:
        path = self.dir / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def case(self, name: str, arrays: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> str:
        with zipfile.ZipFile(self.dir / name, "w", method) as file:
            for key, value in arrays.items():
                file.writestr(key + ".npy", value)
        return str(self.dir / name)

    def xc(self, *arguments: str, expect: int = 0, **environment: str) -> str:
        """Runs the tool; returns what it printed, on failure the one line on stderr."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("XC_")}
        result = subprocess.run([XC, *arguments], capture_output=True, text=True, timeout=300,
                                env={**clean, "XC_THREADS": "1", **environment})
        self.assertEqual(result.returncode, expect, f"{arguments}\n{result.stdout}\n{result.stderr}")
        if expect == 0 or not result.stderr:
            return result.stdout
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("xc: "), result.stderr)
        return result.stderr

    # ---- usage ----

    def test_usage(self) -> None:
        self.assertRegex(self.xc("--version"), r"^xc \d+\.\d+\.\d+\n")
        self.assertIn("check", self.xc("--help"))
        for arguments in ([], ["fly"], ["run"], ["check", self.model], ["bench", self.model, "--nope"],
                          ["run", self.model, "--shape", "x"], ["run", self.model, "--shape", "x=ax2"],
                          ["run", self.model], ["bench", self.model, "--stream", "n=1:2:sideways"],
                          ["run", self.model, "--random", "1", "--set", "jit"]):
            self.assertIn("USAGE", self.xc(*arguments, expect=2))

    def test_help_has_defaults(self) -> None:
        for command, defaults in {
            "run": {"--repeat": "1"},
            "bench": {"--seconds": "2", "--calls": "1000", "--rounds": "7"},
            "check": {"--repeat": "1"},
            "inspect": {"--elements": "16"},
            "opt": {"--elements": "16"},
            "explain": {"--seconds": "2"},
            "report": {"--seconds": "5", "--calls": "1000"},
        }.items():
            for option, value in defaults.items():
                self.assertRegex(self.xc(command, "--help"), rf"{option} [A-Z][^\n]*[=\[]{value}\b")

    def test_errors_name_status_place_and_cure(self) -> None:
        self.assertIn("NOT_FOUND", self.xc("inspect", str(self.dir / "missing.onnx"), expect=1))
        broken = self.write("broken.xct", AFFINE[:-12])
        line = self.xc("inspect", broken, expect=1)
        self.assertIn("FORMAT", line)
        self.assertIn("line", line)
        self.assertRegex(line, r"\(.+\)\n$")
        wrong = self.write("wrong.xct", AFFINE.replace("Relu(%s)", "NoSuchOp(%s)"))
        self.assertIn("NoSuchOp", self.xc("run", wrong, "--random", "1", expect=1))
        self.assertIn("XC_JIT", self.xc("bench", self.model, expect=1, XC_JIT="maybe"))

    def test_wrong_names_and_values_of_flags_are_wrong_use(self) -> None:
        x = self.write("x.npy", self.good["in_x"])
        kernel = self.write("k.txt", KERNEL)
        for arguments, parts in (
            (("run", "--random", "1", "--jit", "maybe"), ("--jit", "'maybe' is not one of auto|off")),
            (("bench", "--jit", "maybe"), ("'maybe' is not one of auto|off",)),
            (("run", "--random", "1", "--threads", "abc"), ("--threads", "'abc' is not a number from 0")),
            (("run", "--random", "1", "--set", "foo=1"), ("--set", "no option named 'foo'")),
            (("run", "--random", "1", "--shape", "q=2"), ("--shape q", "it has: x")),
            (("run", "--random", "1", "--input", f"x={x}", "--shape", "q=2"), ("--shape q", "it has: x")),
            (("run", "--input", f"x={x}", "--shape", "x=7x2"), ("--shape x=7x2", "is 2x2")),
            (("run", "--input", f"q={x}"), ("--input q=", "it has: x")),
            (("opt", "--passes", "fly"), ("--passes", "remove-dead")),
            (("run", "--random", "1", "--repeat", "0"), ("--repeat", "above 0, not '0'")),
            (("check", x, "--rtol", "-1"), ("--rtol", "from 0, not '-1'")),
            (("check", x, "--atol", "1x"), ("--atol", "from 0, not '1x'")),
            (("bench", "--seconds", "0"), ("--seconds", "above 0, not '0'")),
            (("bench", "--stream", "n=1:2:uniform", "--prepared"), ("--prepared", "--stream")),
            (("bench", "--stream", "n=1:2:uniform", "--early", "3"), ("--early", "--stream")),
            (("bench", "--stream", "n=1:2:uniform", "--seconds", "3"), ("--seconds", "--stream")),
            (("bench", "--stream", "n=1:2:uniform", "--warmup", "3"), ("--warmup", "--stream")),
            (("bench", "--calls", "3"), ("--calls", "--stream")),
            (("report", "-o", "r.html", "--stream", "n=1:2:uniform", "--input", f"x={x}"), ("--input", "--stream")),
            (("report", "-o", "r.html", "--stream", "n=1:2:uniform", "--inputs", x), ("--inputs", "--stream")),
        ):
            line = self.xc(arguments[0], self.model, *arguments[1:], expect=2)
            self.assertLess(len(line), 1000)
            for part in ("USAGE", *parts):
                self.assertIn(part, line)
        self.assertIn("fly", self.xc("opt", kernel, "--schedule", "fly", expect=2))
        self.xc("opt", self.write("bad.txt", KERNEL[:-4]), "--schedule", "default", expect=1)
        self.xc("run", self.model, "--input", f"x={x}", "--shape", "x=2x2")
        for arguments, part in (((), "give a command: run, bench"), (("fly",), "'fly' is no command; there are: run")):
            self.assertIn(part, self.xc(*arguments, expect=2))

    def test_empty_variables_are_not_set(self) -> None:
        rows = {row["name"]: row for row in json.loads(self.xc("config", "--json", XC_JIT="", XC_CACHE_DIR=""))}
        self.assertEqual((rows["jit"]["value"], rows["cache_dir"]["value"]), ("auto", ""))

    def test_output_that_cannot_be_written(self) -> None:
        good = self.case("g.npz", self.good)
        for arguments in (("inspect", self.model), ("inspect", "--ops"), ("run", self.model, "--random", "1"),
                          ("check", self.model, good), ("config",), ("config", "--json"), ("--help",)):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run([XC, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertRegex(result.stderr, r"^xc: IO: [^\n]+\n$")
        closed = ["sh", "-c", 'exec "$0" "$@" >&-', XC, "run", self.model, "--random", "1",
                  "--outputs", str(self.dir / "y.npz")]
        result = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^xc: IO: [^\n]+\n$")
        with zipfile.ZipFile(self.dir / "y.npz") as file:  # nothing was printed into it
            self.assertIsNone(file.testzip())

    def test_what_cannot_be_read_or_written(self) -> None:
        directory, nowhere = str(self.dir), str(self.dir / "none" / "file")
        text = self.write("t.npz", "no zip")
        objects = self.write("o.npy", npy("|O", (2, 2), b"pickle"))
        for arguments, part in (
            (("run", self.model, "--input", f"x={directory}"), "IO: cannot read"),
            (("opt", directory), "IO: cannot read"),
            (("inspect", directory), "IO: "),
            (("run", self.model, "--input", f"x={nowhere}"), "NOT_FOUND: cannot read"),
            (("run", self.model, "--inputs", directory), "IO: "),
            (("run", self.model, "--inputs", nowhere), "NOT_FOUND: cannot read"),
            (("run", self.model, "--inputs", text), "FORMAT: "),
            (("run", self.model, "--input", f"x={objects}"), "Python objects"),
            (("run", self.model, "--random", "1", "--outputs", nowhere), "No such file or directory"),
            (("opt", self.model, "-o", nowhere + ".txt"), "No such file or directory"),
        ):
            line = self.xc(*arguments, expect=1)
            self.assertIn(part, line)
            self.assertNotIn("INTERNAL", line)
        if os.geteuid() != 0:
            hidden = Path(self.write("hidden.npy", self.good["in_x"]))
            hidden.chmod(0)
            self.assertIn("IO: cannot read", self.xc("run", self.model, "--input", f"x={hidden}", expect=1))

    def test_errors_of_models_name_the_file(self) -> None:
        for name, content, part in (("m.xct", AFFINE[:-12], "line"), ("m.onnx", b"\x08\x07\x3a\x7f", "byte"),
                                    ("m.npy", self.good["in_x"], "is no ONNX, .xcg or text model"),
                                    ("e.onnx", b"", "empty"), ("w.xct", AFFINE.replace("f32[2] = ", "f32[3] = "), "2 elements")):
            path = self.write(name, content)
            line = self.xc("inspect", path, expect=1)
            self.assertIn(path, line)
            self.assertIn(part, line)
            self.assertNotIn("exception", line)

    def test_nodes_without_names_are_known_by_their_results(self) -> None:
        model = self.write("sum.xct", "graph g(%a: f32[n], %b: f32[m]) -> (%c) { %c = Add(%a, %b) }")
        line = self.xc("run", model, "--random", "1", "--shape", "a=2", "--shape", "b=3", expect=1)
        self.assertIn("node 'c' (Add)", line)
        self.assertEqual(json.loads(self.xc("explain", model, "--json"))["steps"][0]["name"], "c")

    def test_names_and_paths_of_any_bytes(self) -> None:
        odd = os.fsdecode(os.fsencode(self.dir) + b"/m\xff.xct")
        Path(odd).write_text(AFFINE)
        case = os.fsdecode(os.fsencode(self.dir) + b"/c\xff.npz")
        os.rename(self.case("c.npz", self.good), case)
        quick = ("--seconds", "0.02", "--warmup", "0")
        for arguments in (("check", odd, case), ("bench", odd, *quick), ("inspect", odd), ("explain", odd)):
            json.loads(self.xc(*arguments, "--json"))
        model = self.write("eq.xct", "graph g(%a=b: f32[2]) -> (%y) { %y = Neg(%a=b) }".replace("%a=b", '%"a=b"'))
        x = self.write("v=w.npy", npy("<f4", (2,), floats(1, 2)))
        self.assertIn("[-1, -2]", self.xc("run", model, "--input", f"a=b={x}"))
        self.assertIn("[-1, -2]", self.xc("run", model, "--inputs", self.case("eq.npz", {"a=b": Path(x).read_bytes()})))

    # ---- check ----

    def test_check_accepts(self) -> None:
        stored = self.case("a.npz", self.good)
        deflated = self.case("b.npz", self.good, zipfile.ZIP_DEFLATED)
        out = self.xc("check", self.model, stored, deflated, "--repeat", "3", "--jit", "off")
        self.assertEqual(out.count(": ok"), 2)
        self.assertIn("reference kernels: none", out)
        for jit in ("sync", "auto"):
            self.xc("check", self.model, stored, "--jit", jit, "--threads", "2")

    def test_check_reads_every_kind_of_array(self) -> None:
        big_endian = dict(self.good, in_x=npy(">f4", (2, 2), floats(1, 5, -20, 0, order=">")))
        fortran = dict(self.good, in_x=npy("<f4", (2, 2), floats(1, -20, 5, 0), fortran=True))
        for arrays in (big_endian, fortran):
            self.xc("check", self.model, self.case("c.npz", arrays), "--jit", "off")

    def test_check_rejects(self) -> None:
        wrong = dict(self.good, out_y=npy("<f4", (2, 2), floats(11, 3.5, 0, 0)))
        out = self.xc("check", self.model, self.case("w.npz", wrong), self.case("g.npz", self.good), expect=1)
        self.assertIn("FAILED", out)
        self.assertIn("[0, 1]", out)
        self.assertIn("3.5", out)
        self.assertIn(": ok", out)
        for arrays, part in (
            (dict(self.good, out_y=npy("<f4", (4,), floats(11, 3, 0, 0))), "dims"),
            (dict(self.good, in_x=npy("<f8", (2, 2), bytes(32))), "f64"),
            (dict(self.good, in_z=self.good["in_x"]), "'z'"),
            ({"in_x": self.good["in_x"]}, "out_NAME"),
            (dict(self.good, in_x=self.good["in_x"][:-4]), "truncated"),
            (dict(self.good, in_x=b"junk"), "npy"),
        ):
            self.assertIn(part, self.xc("check", self.model, self.case("r.npz", arrays), expect=1))
        self.assertIn("FORMAT", self.xc("check", self.model, self.write("no.npz", "no zip"), expect=1))
        # A case that cannot be compared is an error, told beside the results of the others.
        missing, good = str(self.dir / "none.npz"), self.case("g.npz", self.good)
        result = subprocess.run([XC, "check", self.model, missing, good, "--json"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 1)
        cases = json.loads(result.stdout)["cases"]
        self.assertEqual([case["ok"] for case in cases], [False, True])
        self.assertIn("max_error", cases[0])
        self.assertIn("NOT_FOUND", cases[0]["problem"])
        self.assertRegex(result.stderr, r"^xc: NOT_FOUND: 1 of 2 cases [^\n]*none.npz[^\n]* \(.+\)\n$")

    def test_check_tolerances(self) -> None:
        close = dict(self.good, out_y=npy("<f4", (2, 2), floats(11.4, 3, 0, 0)))
        path = self.case("t.npz", close)
        self.xc("check", self.model, path, expect=1)
        self.xc("check", self.model, path, "--atol", "0.5")
        self.xc("check", self.model, path, "--rtol", "0.1")
        self.write("meta.json", json.dumps({"tolerance": {"y": {"rtol": 0.0, "atol": 0.5}}}))
        self.xc("check", self.model, path)
        self.xc("check", self.model, path, "--atol", "0.1", expect=1)
        for wrong in ("0.5", -1, None):
            self.write("meta.json", json.dumps({"tolerance": {"y": {"atol": wrong}}}))
            said = self.xc("check", self.model, path, expect=1)
            self.assertIn("meta.json: the atol of y is no number from 0", said)
        self.write("meta.json", json.dumps({"tolerance": {"y": {"rtol": 0.0, "atol": 0.5}}}))
        report = json.loads(self.xc("check", self.model, path, "--json"))
        self.assertTrue(report["ok"])
        self.assertAlmostEqual(report["cases"][0]["max_error"], 0.4, places=3)

    # ---- run ----

    def test_run(self) -> None:
        x = self.write("x.npy", self.good["in_x"])
        out = self.xc("run", self.model, "--input", f"x={x}", "--outputs", str(self.dir / "y.npz"))
        self.assertIn("y: f32[2x2]", out)
        with zipfile.ZipFile(self.dir / "y.npz") as file:
            self.assertEqual(file.namelist(), ["y.npy"])
            self.assertEqual(file.read("y.npy"), self.good["out_y"])
        again = self.xc("run", self.model, "--inputs", self.case("in.npz", {"x": self.good["in_x"]}))
        self.assertEqual(again, out)
        mask = self.write("mask.npy", npy("|b1", (4,), bytes((0, 255, 2, 1))))
        model = self.write("mask.xct", "graph g(%x: bool[n]) -> (%y) { %y = Cast(%x) {to = 6} }")
        self.assertIn("[0, 1, 1, 1]", self.xc("run", model, "--input", f"x={mask}"))
        first = self.xc("run", self.model, "--random", "1", "--shape", "x=3x2", "--repeat", "5")
        self.assertIn("f32[3x2]", first)
        self.assertEqual(first, self.xc("run", self.model, "--random", "1", "--shape", "x=3x2"))
        self.assertNotEqual(first, self.xc("run", self.model, "--random", "2", "--shape", "x=3x2"))
        self.assertIn("f32[n, 2]", self.xc("run", self.model, "--random", "1", "--shape", "x=3", expect=2))

    def test_run_names_of_arrays(self) -> None:
        """Inputs called in_NAME and out_NAME, by their own names and as a case of xc check."""
        model = self.write("names.xct", "graph g(%in_a: f32[2], %out_b: f32[2]) -> (%y) { %y = Add(%in_a, %out_b) }")
        a, b = npy("<f4", (2,), floats(1, 2)), npy("<f4", (2,), floats(10, 20))
        plain = self.case("plain.npz", {"in_a": a, "out_b": b})
        self.assertIn("[11, 22]", self.xc("run", model, "--inputs", plain))
        case = self.case("case.npz", {"in_in_a": a, "in_out_b": b, "out_y": b})
        self.assertIn("[11, 22]", self.xc("run", model, "--inputs", case))

    def test_sizes_of_one_symbol_agree(self) -> None:
        model = self.write("sizes.xct", "graph g(%x: f32[n], %y: f32[2*n+1], %z: f32[floordiv(n+3, 4)]) -> (%x, %y, %z) {}")
        for shape, sizes in ((), (1, 3, 1)), (("--shape", "x=6"), (6, 13, 2)):
            out = self.xc("run", model, "--random", "1", *shape)
            for name, size in zip("xyz", sizes):
                self.assertIn(f"{name}: f32[{size}]", out)
        self.xc("bench", model, "--stream", "n=1:5:growing", "--calls", "5")

    def test_run_containers(self) -> None:
        outputs = ("--outputs", str(self.dir / "y.npz"))
        model = self.write("seq.xct", "graph g(%x: f32[n]) -> (%s) {\n"
                           "  %s = SplitToSequence(%x) {axis = 0, keepdims = 0}\n}")
        random = ("--random", "1", "--shape", "x=3")
        self.assertEqual(self.xc("run", model, *random), "s: seq(f32[]) of 3 elements\n")
        self.assertIn("UNSUPPORTED: output s is seq", self.xc("run", model, *random, *outputs, expect=1))
        model = self.write("none.xct", 'graph g(%x: f32[n]) -> (%o, %y) {\n'
                           '  %o = Optional() {type = "f32[2]"}\n  %y = Neg(%x)\n}')
        self.assertRegex(self.xc("run", model, *random), r"^o: opt\(f32\[[^)]*\) none\ny: f32\[3\]")
        model = self.write("map.xct", "graph g(%x: f32[n, 2]) -> (%m) {\n"
                           "  %m = ai.onnx.ml::ZipMap(%x) {classlabels_int64s = [4, 5]}\n}")
        self.assertRegex(self.xc("run", model, "--random", "1", "--shape", "x=3x2"), r"^m: seq\(map.* of 3 elements")

    def test_text(self) -> None:
        model = self.write("text.xct", "graph text(%x: string[n]) -> (%y) {\n  %y = Identity(%x)\n}\n")
        texts = ["plain", "\u00e4\u20ac", "\U0001f600", ""]
        units = b"".join(t.encode("utf-32-le").ljust(20, b"\0") for t in texts)
        bytes_ = [b"a\xc3(", b"\xff\xfe", b"ok", b"\xe2\x82\xac"]  # some that are no UTF-8
        for descr, data, expected in [
            ("<U5", units, texts),
            (">U5", b"".join(t.encode("utf-32-be").ljust(20, b"\0") for t in texts), texts),
            ("|S3", b"".join(b.ljust(3, b"\0") for b in bytes_), [b.decode(errors="replace") for b in bytes_]),
        ]:
            x, out = self.write("x.npy", npy(descr, (4,), data)), str(self.dir / "y.npz")
            self.xc("run", model, "--input", f"x={x}", "--outputs", out)
            with zipfile.ZipFile(out) as file:
                array = file.read("y.npy")
            header = 10 + struct.unpack_from("<H", array, 8)[0]
            width = (len(array) - header) // 4
            got = [array[header + width * i:header + width * (i + 1)].decode("utf-32-le").rstrip("\0") for i in range(4)]
            self.assertEqual(got, expected, descr)
        x = self.write("x.npy", npy("|S9", (1,), b"\x1b[31m\xff\n".ljust(9, b"\0")))
        self.assertIn('"\\u001b[31m\ufffd\\n"', self.xc("run", model, "--input", f"x={x}"))
        x = self.write("x.npy", npy("<U1", (1,), struct.pack("<I", 0x110000)))
        self.assertIn("0x110000 is no character", self.xc("run", model, "--input", f"x={x}", expect=1))

    def test_run_reports_bad_values(self) -> None:
        model = self.write("pick.xct", BAD_INDEX)
        i = self.write("i.npy", npy("<i8", (1,), struct.pack("<q", 9)))
        self.assertIn("RANGE", self.xc("run", model, "--input", f"i={i}", "--random", "1", expect=1))

    # ---- graphs ----

    def test_inspect_operators(self) -> None:
        self.assertIn("| MatMul | 1 9 13 |", self.xc("inspect", "--ops"))
        rows = {(row["domain"], row["name"]): row for row in json.loads(self.xc("inspect", "--ops", "--json"))}
        relu = rows["", "Relu"]
        self.assertEqual(relu["versions"], [1, 6, 13, 14])
        self.assertIn("f32", relu["input_types"][0])
        self.assertNotIn("string", relu["input_types"][0])
        self.assertEqual(relu["implementations"][-1], "reference")
        self.assertEqual(relu["fusion"], "elementwise")
        self.assertEqual(rows["ai.onnx.preview.training", "Adam"]["implementations"], [])
        self.assertIn("either", self.xc("inspect", expect=2))

    def test_inspect_convert_opt(self) -> None:
        self.assertIn("Relu(%s)", self.xc("inspect", self.model))
        ports = json.loads(self.xc("inspect", self.model, "--json"))
        self.assertEqual(ports["inputs"][0]["dims"], ["n", 2])
        case = self.case("case.npz", self.good)
        for ending in ("xcg", "onnx", "xct"):
            path = str(self.dir / f"copy.{ending}")
            self.xc("convert", self.model, path)
            self.xc("check", path, case, "--jit", "off")
        self.xc("convert", self.model, str(self.dir / "copy.pdf"), expect=1)
        dead = self.write("dead.xct", AFFINE.replace("  %y:", "  %u: f32[n, 2] = Neg(%x)\n  %y:"))
        self.assertIn("Neg", self.xc("opt", dead, "--passes", "merge-common"))
        self.assertNotIn("Neg", self.xc("opt", dead, "--passes", "remove-dead"))
        self.assertIn("remove-dead", self.xc("opt", dead, "--passes", "fly", expect=2))
        kernel = self.write("k.txt", KERNEL)
        self.assertIn("vector(16)", self.xc("opt", kernel, "--schedule", "vectorize i 16"))
        self.assertIn("fly", self.xc("opt", kernel, "--schedule", "fly", expect=2))

    def test_explain(self) -> None:
        self.assertIn("plan", self.xc("explain", self.model, "--shape", "x=4x2"))
        plan = json.loads(self.xc("explain", self.model, "--json"))
        self.assertTrue(plan["steps"])
        self.assertNotIn("profile", plan)
        x = self.write("ex.npy", self.good["in_x"])
        self.assertIn("n=2", self.xc("explain", self.model, "--input", f"x={x}"))
        # Nothing is measured without a jit: no time is told, rather than 0.
        unmeasured = ("--input", f"x={x}", "--runs", "20", "--jit", "off")
        self.assertNotIn("us per run", self.xc("explain", self.model, *unmeasured))
        self.assertNotIn("run_us", json.loads(self.xc("explain", self.model, "--json", *unmeasured)))

    def test_explain_profile(self) -> None:
        text = self.xc("explain", self.model, "--profile", "--runs", "50", "--shape", "x=4x2", "--jit", "sync")
        for part in ("profile:", "50 calls", "saved"):
            self.assertIn(part, text)
        shape = ("--shape", "x=400x2", "--seconds", "0.5", "--json")
        document = json.loads(self.xc("explain", self.model, "--profile", *shape))
        profile = document["profile"]
        self.assertEqual(profile["counters"]["runs"], document["totals"]["runs"])
        self.assertGreater(profile["counters"]["runs"], 10)
        for region in profile["regions"]:
            for row in region["shapes"]:
                self.assertEqual(row["shape"], "n=400")
                self.assertGreater(row["calls"], 0)
        self.assertEqual([e["kind"] for e in profile["events"] if e["kind"] == "searched"], ["searched"])

    def test_explain_code(self) -> None:
        options = ("--runs", "1", "--shape", "x=4x2", "--jit", "sync")
        self.assertNotIn("code of", self.xc("explain", self.model, *options))
        regions = json.loads(self.xc("explain", self.model, "--code", "--json", *options))["profile"]["regions"]
        compiled = [region for region in regions if region["code_bytes"]]
        text = self.xc("explain", self.model, "--code", *options)
        self.assertEqual(text.count("code of"), len(compiled))
        for region in compiled:
            self.assertRegex(region["listing"], r"(?s)^kernel .*\.globl")

    def test_config(self) -> None:
        rows = {row["name"]: row for row in json.loads(self.xc("config", "--json", XC_JIT="off"))}
        self.assertEqual(rows["jit"]["value"], "off")
        self.assertEqual(rows["threads"]["value"], "1")
        self.assertEqual(rows["jit"]["environment"], "XC_JIT")
        self.assertTrue(rows["threads"]["engine_only"] and not rows["jit"]["engine_only"])
        self.assertIn("sync", self.xc("config", "--jit", "sync"))

    # ---- the persistent cache ----

    def fill_cache(self, **environment: str) -> Path:
        cache = self.dir / "cache"
        chain = self.write("chain.xct", "graph chain(%x: f32[n, 64]) -> (%y) {\n  %a = Tanh(%x)\n"
                                        "  %b = Mul(%a, %x)\n  %y = Add(%b, %x)\n}\n")
        self.xc("run", chain, "--random", "1", "--shape", "x=16x64", "--jit", "sync", "--cache", str(cache),
                **environment)
        return cache

    def test_cache_spares_the_code_generator(self) -> None:
        """The dynamic loader's own log says which libraries a process opened."""
        opened = []
        for name in ("first", "second"):
            self.fill_cache(LD_DEBUG="files", LD_DEBUG_OUTPUT=str(self.dir / name))
            log = "".join(path.read_text(errors="replace") for path in self.dir.glob(name + ".*"))
            self.assertIn("libxcrt.so", log)
            opened.append("libxcrt-jit.so" in log)
        if not opened[0]:
            self.skipTest("built without the JIT")
        self.assertEqual(opened, [True, False])

    def test_cache(self) -> None:
        cache = self.fill_cache()
        self.assertEqual(cache.stat().st_mode & 0o777, 0o700)
        rows = json.loads(self.xc("cache", str(cache), "list", "--json"))
        if not rows:
            self.skipTest("built without the JIT")
        self.assertEqual({row["kind"] for row in rows}, {"object"})
        self.assertEqual([row["problem"] for row in rows], [""] * len(rows))
        self.assertIn("Tanh", self.xc("cache", str(cache)))
        self.assertEqual(self.xc("cache", str(cache), "verify"), f"{len(rows)} sound, 0 ignored\n")
        file = cache / rows[0]["name"]
        file.write_bytes(file.read_bytes()[:-1])
        self.assertIn(f"{file.name}: damaged", self.xc("cache", str(cache), "verify", expect=1))
        self.assertIn("ignored", self.xc("cache", str(cache), "list"))
        self.assertIn("0 files removed", self.xc("cache", str(cache), "prune", "--max-mb", "1e13"))
        (cache / "notes.txt").write_text("mine")
        self.assertIn(f"{len(rows)} files removed", self.xc("cache", str(cache), "prune", "--max-mb", "0.000001"))
        self.fill_cache()
        self.assertIn("files removed", self.xc("cache", str(cache), "clear"))
        self.assertEqual([path.name for path in cache.iterdir()], ["notes.txt"])

    def test_cache_errors(self) -> None:
        self.assertIn("NOT_FOUND", self.xc("cache", str(self.dir / "none"), expect=1))
        open_to_all = self.dir / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        self.assertIn("chmod", self.xc("cache", str(open_to_all), expect=1))
        self.xc("cache", str(self.dir), "prune", expect=2)
        for number in ("nan", "inf", "-1", "0"):
            self.xc("cache", str(self.dir), "prune", "--max-mb", number, expect=2)
        self.xc("cache", expect=2)
        self.assertEqual(json.loads(self.xc("cache", str(self.dir), "--json")), [])
        self.assertIn("list", self.xc("cache", str(self.dir), "--json", "verify", expect=2))
        # A directory that was asked for and is of no use: said, and the run goes on.
        for directory in (str(open_to_all), self.write("file", ""), "/proc/x"):
            result = subprocess.run([XC, "run", self.model, "--random", "1", "--cache", directory],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stderr, r"^xc: no persistent cache[^\n]*" + re.escape(directory) + r"[^\n]*\n$")

    def test_bench_cache(self) -> None:
        row = json.loads(self.xc("bench", self.model, "--json", "--shape", "x=64x2", "--seconds", "0.05",
                                 "--warmup", "0.02", "--rounds", "2", "--cache", str(self.dir / "cache")))
        self.assertEqual(row["restarts"], 2)
        for key in ("tenth_over_final", "final_from_run", "compiled_regions", "filling_median_us"):
            self.assertIn(key, row)

    # ---- bench ----

    def test_bench(self) -> None:
        keys = ("model threads jit load_ms first_us median_us min_us p99_us runs compiled_regions swapped "
                "rolled_back compile_ms net_saved_ms code_bytes peak_rss_mb").split()
        quick = ("--seconds", "0.05", "--warmup", "0.02")
        row = json.loads(self.xc("bench", self.model, "--json", "--shape", "x=8x2", *quick))
        self.assertEqual([k for k in keys if k not in row], [])
        self.assertGreater(row["runs"], 2)
        self.assertLessEqual(row["min_us"], row["median_us"])
        header = self.xc("bench", self.model, self.model, "--prepared", *quick).splitlines()
        self.assertEqual(header[0].split(), keys)
        self.assertEqual(len(header), 3)
        rows = json.loads(self.xc("bench", self.model, self.model, "--early", "3", "--json", *quick))
        self.assertEqual([len(row["early_us"]) for row in rows], [3, 3])
        self.xc("bench", self.model, "--seconds", "nan", expect=2)

    def test_bench_stream(self) -> None:
        for kind in ("constant", "uniform", "bimodal", "alternating", "growing"):
            row = json.loads(self.xc("bench", self.model, "--stream", f"n=1:16:{kind}", "--calls", "120", "--json"))
            for key in ("t1_s", "t10_s", "t100_s", "t120_s", "worst_first_ratio", "rss_growth_mb"):
                self.assertIn(key, row)
            self.assertLessEqual(row["t1_s"], row["t100_s"])
            self.assertEqual(row["threads"], 1)
        self.assertIn("n", self.xc("bench", self.model, "--stream", "q=1:2:uniform", expect=2))
        self.xc("bench", self.model, "--stream", "x=1:4:uniform", "--calls", "20")  # by input

    def test_bench_against(self) -> None:
        out = self.xc("bench", self.model, "--against", "--jit off XC_FUSION=off", "--rounds", "2",
                      "--seconds", "0.02", "--warmup", "0", "--json")
        rows = {row["key"]: row for row in json.loads(out)["comparison"]}
        self.assertIn("median_us", rows)
        self.assertIn("noise", rows["median_us"])
        self.assertTrue(rows["median_us"]["noise"])  # two rounds can prove nothing

    def test_failures_of_measuring_processes_are_told_as_ours(self) -> None:
        quick = ("--seconds", "0.02", "--warmup", "0", "--rounds", "2")
        missing = str(self.dir / "none.onnx")
        self.assertIn("NOT_FOUND", self.xc("bench", missing, self.model, *quick, expect=1))
        self.assertIn("x=9", self.xc("bench", self.model, self.model, "--shape", "x=9", *quick, expect=2))
        self.assertIn("--nope", self.xc("bench", self.model, "--against", "--nope", *quick, expect=2))
        self.assertIn("'wrong'", self.xc("bench", self.model, "--against", "--jit wrong", *quick, expect=2))
        self.assertIn("XC_JIT", self.xc("bench", self.model, "--against", "XC_JIT=wrong", *quick, expect=1))


if __name__ == "__main__":
    unittest.main(verbosity=1)
