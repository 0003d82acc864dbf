#!/usr/bin/env python3
"""xc report and its Chrome trace, as a reader, a browser and a trace viewer meet them.

Usage: report_test.py XC [ARTEFACTS]. With a Chromium (CHROMIUM, or chromium, chromium-browser, google-chrome in
PATH) the page is rendered: its elements are compared with the events, and screenshots, light and dark, go to
ARTEFACTS. Without one those tests are skipped.
"""

from __future__ import annotations

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

XC = sys.argv.pop(1)
ARTEFACTS = Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
BROWSER = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

HOSTILE = "</script><img src=x onerror=alert(1)> & \\\"q\\\""
# A chain that is worth fusing, with a name that wants to be markup.
MODEL = """graph "%s"(%%x: f32[n, 96], %%b: f32[96]) -> (%%y) {
  const %%h: f32[] = 0.5
  const %%k: f32[] = 0.044715
  const %%s: f32[] = 0.7978845608
  const %%one: f32[] = 1
  %%t = Add(%%x, %%b)
  %%u = Mul(%%t, %%k)
  %%v = Mul(%%u, %%t)
  %%w = Mul(%%v, %%t)
  %%a = Add(%%t, %%w)
  %%c = Mul(%%a, %%s)
  %%d = Tanh(%%c)
  %%e = Add(%%d, %%one)
  %%f = Mul(%%t, %%h)
  %%y = Mul(%%f, %%e)
}
"""
SECTIONS = ["Time of a call", "Net time saved", "Tiers of each region", "Before and after", "Shapes seen",
            "Compile queue", "Memory", "Steps of the plan", "Events"]


class Page(html.parser.HTMLParser):
    """Elements in order, and the text inside each kind."""

    VOID = {"meta", "link", "img", "br", "hr", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def count(self, tag: str) -> int:
        return sum(1 for name, _ in self.elements if name == tag)


def data_of(text: str) -> dict:
    page = Page(text)
    index = [a for t, a in page.elements if t == "script"].index({"type": "application/json", "id": "data"})
    return json.loads(page.texts["script"][index])


def kinds(data: dict) -> dict[str, int]:
    out: dict[str, int] = {}
    for event in data["profile"]["events"]:
        out[event["kind"]] = out.get(event["kind"], 0) + 1
    return out


class ReportTest(unittest.TestCase):
    dir: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = Path(cls.temporary.name)
        # A file name is a title: it is as hostile as a file system allows.
        cls.model = cls.dir / "<b>gelu & co.xct"
        cls.model.write_text(MODEL % HOSTILE)
        cls.page_file, cls.trace_file = cls.dir / "report.html", cls.dir / "trace.json"
        cls.xc("report", str(cls.model), "-o", str(cls.page_file), "--trace", str(cls.trace_file), "--threads", "1",
               "--stream", "n=64:512:bimodal", "--seconds", "2.5", "--jit", "auto")
        cls.text = cls.page_file.read_text(encoding="utf-8")
        cls.data = data_of(cls.text)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.temporary.cleanup()

    @classmethod
    def xc(cls, *arguments: str, expect: int = 0) -> str:
        done = subprocess.run([XC, *arguments], capture_output=True, text=True, timeout=300)
        if done.returncode != expect:
            raise AssertionError(f"xc {arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout if expect == 0 else done.stderr

    # ---- the page as a file ----

    def test_page_is_one_well_formed_file_that_loads_nothing(self) -> None:
        page = Page(self.text)
        self.assertEqual((page.unbalanced, page.open), ([], []))
        for tag in ("html", "head", "body", "title", "h1", "main", "style"):
            self.assertEqual(page.count(tag), 1, tag)
        self.assertEqual(page.count("script"), 2)
        for tag in ("img", "link", "iframe", "object"):
            self.assertEqual(page.count(tag), 0, tag)
        for _, attributes in page.elements:
            self.assertFalse({"src", "href", "onerror", "onclick"} & attributes.keys())
        code = "".join(page.texts["style"]) + page.texts["script"][1]
        for loads in ("@import", "url(", "fetch(", "XMLHttpRequest", "import(", "WebSocket", "innerHTML", "eval("):
            self.assertNotIn(loads, code)
        self.assertIn("prefers-color-scheme: dark", "".join(page.texts["style"]))
        self.assertLess(len(self.text), 3_000_000)

    def test_names_are_text(self) -> None:
        page = Page(self.text)
        self.assertEqual(page.count("b"), 0)
        self.assertIn("<b>gelu & co.xct", page.texts["title"][0])
        self.assertIn("<b>gelu & co.xct", page.texts["h1"][0])
        self.assertIn("</script><img", self.data["explain"]["program"])
        self.assertNotIn("<", self.text[self.text.index('id="data">') + 10:].split("</script>")[0])

    # ---- the numbers ----

    def test_events_and_counters_agree(self) -> None:
        counters, events, found = self.data["profile"]["counters"], self.data["profile"]["events"], kinds(self.data)
        self.assertEqual(counters["events_dropped"], 0)
        for kind, counter in (("compiled", "compiled_regions"), ("accepted", "swapped"), ("rejected", "rejected"),
                              ("rolled_back", "rolled_back")):
            self.assertEqual(found.get(kind, 0), counters[counter], kind)
        self.assertEqual(found["searched"], 1)
        self.assertGreaterEqual(found["candidate"], 1)
        self.assertGreaterEqual(found.get("queued", 0), found.get("compiled", 0))
        times = [e["time_ns"] for e in events]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0], 0)
        self.assertLessEqual(times[-1] / 1e9, self.data["seconds"] + 0.5)
        spent = sum(e["compile_ms"] for e in events if e["kind"] == "compiled")
        self.assertLessEqual(spent, counters["compile_ms"] * 1.001)
        for e in events:
            if e["kind"] == "queued":
                self.assertGreaterEqual(e["regret_ms"], e["price_ms"])
            if e["kind"] == "verified":
                self.assertLessEqual(e["worst_error"], 1)
            if e["kind"] == "accepted":
                self.assertLess(e["fused_us"], e["base_us"])
                self.assertGreaterEqual(e["samples"], 3)
            if e["kind"] == "rejected":
                self.assertGreater(e["back_off_s"], 0)

    def test_regions_tell_what_their_events_told(self) -> None:
        for region in self.data["profile"]["regions"]:
            mine = [e for e in self.data["profile"]["events"] if e.get("region") == region["identity"]]
            self.assertEqual([e["kind"] for e in mine][:1], ["candidate"])
            decided = [e for e in mine if e["kind"] in ("accepted", "rejected", "rolled_back", "kept")]
            if decided:
                for times in ("base_us", "fused_us"):  # kept in seconds: the last digit may differ
                    self.assertAlmostEqual(region[times], decided[-1][times], places=9)
            live = sum(s["live_calls"] for s in region["shapes"])
            if region["state"] == "live":
                self.assertGreater(live, 0)
            for shape in region["shapes"]:
                self.assertRegex(shape["shape"], r"^n=(64|512)$")
                self.assertLessEqual(shape["live_calls"], shape["calls"])

    def test_series_and_shapes_add_up(self) -> None:
        series, runs = self.data["series"], self.data["profile"]["counters"]["runs"]
        self.assertEqual({len(values) for values in series.values()}, {len(series["t_s"])})
        self.assertGreater(len(series["t_s"]), 50)
        for name in ("t_s", "calls", "compile_ms"):
            self.assertEqual(series[name], sorted(series[name]), name)
        self.assertEqual(series["calls"][-1], runs)
        self.assertEqual(sum(s["calls"] for s in self.data["shapes"]), runs)
        self.assertEqual([s["shape"] for s in self.data["shapes"]], ["x[64x96] b[96]", "x[512x96] b[96]"])
        self.assertGreater(self.data["shapes"][0]["calls"], self.data["shapes"][1]["calls"])
        self.assertGreater(min(series["rss_bytes"]), 1 << 20)
        self.assertGreater(series["working_bytes"][-1], 0)

    # ---- other recordings ----

    def test_nothing_compiled(self) -> None:
        path = self.dir / "off.html"
        self.xc("report", str(self.model), "-o", str(path), "--jit", "off", "--seconds", "0.2", "--shape", "x=4x96")
        data = data_of(path.read_text(encoding="utf-8"))
        self.assertEqual((data["profile"]["regions"], data["profile"]["events"]), ([], []))
        self.assertGreater(len(data["explain"]["steps"]), 0)
        self.assertEqual(len(data["shapes"]), 1)

    def test_bad_use_says_what_to_do(self) -> None:
        model = str(self.model)
        self.assertIn("-o report.html", self.xc("report", model, expect=2))
        self.assertIn("there are: n", self.xc("report", model, "-o", "x.html", "--stream", "q=1:2:uniform", expect=2))
        self.assertIn("cannot write", self.xc("report", model, "-o", str(self.dir / "no" / "x.html"), "--seconds",
                                              "0.05", expect=1))

    # ---- the trace ----

    def test_trace_follows_the_format(self) -> None:
        trace = json.loads(self.trace_file.read_text(encoding="utf-8"))
        events = trace["traceEvents"]
        self.assertIn(trace["displayTimeUnit"], ("ms", "ns"))
        # Required members by phase: "Trace Event Format", sections on complete, instant, counter and metadata events.
        for e in events:
            self.assertIsInstance(e["name"], str)
            self.assertIn(e["ph"], "XiCM")
            self.assertIsInstance(e["pid"], int)
            self.assertIsInstance(e["tid"], int)
            if e["ph"] != "M":
                self.assertIsInstance(e["ts"], (int, float))
            if e["ph"] == "X":
                self.assertGreaterEqual(e["dur"], 0)
                self.assertIsInstance(e["cat"], str)
            elif e["ph"] == "i":
                self.assertIn(e["s"], "gpt")
            elif e["ph"] == "C":
                self.assertTrue(all(isinstance(v, (int, float)) for v in e["args"].values()))
            elif e["ph"] == "M":
                self.assertIn(e["name"], ("process_name", "thread_name"))
                self.assertIsInstance(e["args"]["name"], str)
        runs = [e for e in events if e["ph"] == "X" and e["cat"] == "run"]
        steps = [e for e in events if e["ph"] == "X" and e["cat"] == "step"]
        self.assertGreater(len(runs), 10)
        self.assertGreaterEqual(len(steps), len(runs))
        self.assertEqual({e["tid"] for e in runs + steps}, {2})
        self.assertTrue(all(e["args"]["n"] in (64, 512) for e in runs))
        # Steps follow one another inside their run.
        at, inside = iter(runs), None
        for step in sorted(steps, key=lambda e: e["ts"]):
            while inside is None or step["ts"] > inside["ts"] + inside["dur"]:
                inside = next(at)
            self.assertGreaterEqual(step["ts"] - inside["ts"], -0.01)
            self.assertLessEqual(step["ts"] + step["dur"], inside["ts"] + inside["dur"] + 0.01)
        # Decisions: those of the page.
        found = kinds(self.data)
        for kind in ("compiled", "accepted", "trial", "queued"):
            there = sum(1 for e in events if e["ph"] in "Xi" and e.get("args", {}).get("kind") == kind)
            self.assertEqual(there, found.get(kind, 0), kind)
        self.assertEqual(sum(1 for e in events if e["ph"] == "C"), len(self.data["profile"]["events"]))

    # ---- the page in a browser ----

    def browse(self, page: Path, *arguments: str) -> str:
        if not BROWSER:
            self.skipTest("no Chromium: set CHROMIUM or install the package chromium")
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}",
                 "--enable-logging=stderr", "--v=0", *arguments, page.as_uri()],
                capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertEqual(re.findall(r".*CONSOLE.*", done.stderr), [])  # script errors
        return done.stdout

    def render(self, page: Path) -> Page:
        dom = Page(self.browse(page, "--dump-dom"))
        self.assertEqual(dom.texts["h2"], SECTIONS)
        self.assertEqual(dom.count("img"), 0)
        for svg in range(dom.count("svg")):
            self.assertTrue(dom.texts["title"][1 + svg])
        self.assertNotIn("NaN", "".join(dom.texts["main"]) + "".join(a.get("d") or "" for _, a in dom.elements))
        return dom

    def test_browser_shows_the_numbers(self) -> None:
        dom = self.render(self.page_file)
        tiles = dict(zip(dom.texts["span"][-8:], dom.texts["b"]))
        self.assertEqual(tiles["calls"].replace(",", ""), str(self.data["profile"]["counters"]["runs"]))
        live = sum(r["state"] == "live" for r in self.data["profile"]["regions"])
        self.assertEqual(tiles["regions replaced by fused kernels"], f"{live} of {len(self.data['profile']['regions'])}")
        text = "".join(dom.texts["main"])
        for region in self.data["profile"]["regions"]:
            if region["base_us"] > 0:
                self.assertIn(f"({region['base_us'] / region['fused_us']:.2f}x)", text)
        rects = [a for t, a in dom.elements if t == "rect"]
        states = sum(1 for e in self.data["profile"]["events"] if e["kind"] in
                     ("candidate", "queued", "compiled", "verified", "trial", "accepted", "rejected", "rolled_back"))
        self.assertGreaterEqual(len(rects), states + len(self.data["shapes"]))
        self.assertTrue(all(float(a["width"]) > 0 and float(a["height"]) > 0 for a in rects))

    def test_browser_shows_empty_and_full_recordings(self) -> None:
        empty = self.dir / "off.html"
        self.xc("report", str(self.model), "-o", str(empty), "--jit", "off", "--seconds", "0.2")
        self.assertIn("The JIT was off", "".join(self.render(empty).texts["main"]))
        # The same recording with thousands of events.
        data = json.loads(json.dumps(self.data))
        events = data["profile"]["events"]
        last = dict(events[-1])
        events += [dict(last, kind="trial_sample", time_ns=last["time_ns"] + k) for k in range(5000)]
        full = self.dir / "full.html"
        begin = self.text.index('id="data">') + len('id="data">')
        end = self.text.index("</script>", begin)
        full.write_text(self.text[:begin] + json.dumps(data).replace("<", "\\u003c") + self.text[end:])
        self.assertIn(f"{len(events):,} events", "".join(self.render(full).texts["main"]))

    def test_screenshots(self) -> None:
        if not ARTEFACTS:
            self.skipTest("no folder for artefacts was given")
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        sizes = []
        for name, scheme in (("light", "1"), ("dark", "0")):
            path = ARTEFACTS / f"report_{name}.png"
            path.unlink(missing_ok=True)
            self.browse(self.page_file, "--window-size=1180,4600", f"--blink-settings=preferredColorScheme={scheme}",
                        f"--screenshot={path}")
            png = path.read_bytes()
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(int.from_bytes(png[16:20], "big"), 1180)
            sizes.append(png)
        self.assertNotEqual(sizes[0], sizes[1])  # the schemes differ
        shutil.copy(self.page_file, ARTEFACTS / "report.html")


if __name__ == "__main__":
    unittest.main(verbosity=1)
