"""gpumat report: verdicts and intervals against SciPy's, pages that hold what hostile logs say as text alone."""

import base64
import csv
import hashlib
import html.parser
import json
import os
import re
import shutil
import threading
import time
import unittest

import numpy as np
import scipy.stats

from harness import Case, cases, random_values, write_h5

HAS_GNUPLOT = shutil.which("gnuplot") is not None
EVIL = "\"'></td></pre></title></svg><script>alert(1)</script><img src=x onerror=alert(2)>&lt;`\u202e\x1b[2J%s 100%\n# x | y"
# gnuplot's part included.
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "nav", "a", "svg", "defs", "circle", "path", "rect",
        "use", "filter", "feflood", "fecomposite", "g", "text", "polygon", "p", "pre", "div", "table", "thead",
        "tbody", "tr", "th", "td", "button", "i", "details", "summary", "figure", "figcaption", "script", "tspan"}


def interval(samples):
    """The 95 % interval of the median by order statistics, or None."""
    n = len(samples)
    rank = int(scipy.stats.binom.ppf(0.025, n, 0.5))  # the least k with P(X <= k) >= 2.5 %
    if scipy.stats.binom.cdf(rank, n, 0.5) <= 0.025:
        rank += 1
    ordered = sorted(samples)
    return (ordered[rank - 1], ordered[n - rank]) if rank > 0 else None


def settled(samples):
    ends, median = interval(samples), np.median(samples)
    return ends is not None and max(ends[1] - median, median - ends[0]) <= 0.01 * median


def around(median, spread=0.001, count=31):
    return list(median * (1 + np.linspace(-spread, spread, count)))


def row(level, samples, op="transpose", size=256, **more):
    ends = interval(samples) or (None, None)
    median = float(np.median(samples)) if samples else None
    return {"op": op, "level": level, "level_run": level, "baseline": False, "in_place": False, "parameters": {}, "type": "f32",
            "m": size, "n": size, "k": None, "median_ms": median, "low_ms": ends[0], "high_ms": ends[1],
            "effective_bandwidth_gbps": 8 * size * size / median / 1e6 if median else None, "gflops": None,
            "verdict": "passed", "verification": "full", "samples_ms": samples, **more}


def bench(*rows, device="Test GPU", **more):
    return {"schema": "gpumat.bench/1", "time": "2026-01-01T00:00:00Z", "command": ["gpumat", "bench", "transpose"],
            "version": "0.1.0", "host": "here", "op": "transpose", "in_place": False, "cache": "cold", "time_limit_s": 1,
            "device": {"kind": "gpu", "name": device, "threads": None}, "rows": list(rows), **more}


def run(exit_code=0, total=10.0, stages=(), **more):
    return {"schema": "gpumat.run/1", "time": "2026-01-01T00:00:00Z", "command_line": "gpumat transpose a.h5", "version": "0.1.0",
            "host": "here", "op": "transpose", "level": "tiled", "device": {"kind": "cpu", "name": "CPU", "threads": 2},
            "type": "f32", "shape": {"m": 256, "n": 256, "k": None}, "stages_ms": {"total": total},
            "stages": [{"name": name, "begin_ms": begin, "end_ms": end, "busy_ms": busy, "waiting_ms": end - begin - busy}
                       for name, begin, end, busy in stages],
            "kernel_ms": {"samples": [1.0], "median": 1.0}, "kernel_bytes": 524288, "kernel_flops": 0,
            "verification": {"mode": "full", "verdict": "passed"}, "error": None, "exit_code": exit_code, **more}


class Page(html.parser.HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.scripts, self.stack = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.stack.append(tag)

    def handle_endtag(self, tag):
        self.stack.append("/" + tag)

    def handle_data(self, data):
        (self.scripts if self.stack and self.stack[-1] == "script" else self.texts).append(data)


class ReportCase(Case):
    def write(self, name, *documents, end="\n"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("\n".join(json.dumps(document) for document in documents) + end)

    def report(self, *words, code=0, **options):
        return self.run_tool("report", *words, "--json", code=code, **options).json()

    def page(self, *words, code=0):
        self.run_tool("report", *words, "-o", "page.html", "--force", code=code)
        with open(self.path("page.html"), encoding="utf-8") as file:
            return file.read()

    def markdown(self, *words, code=0):
        self.run_tool("report", *words, "-o", "page.md", "--force", code=code)
        with open(self.path("page.md"), encoding="utf-8") as file:
            return file.read()


@cases([
    ("slower", "SLOWER", around(1.0), around(1.1), "5%"),
    ("faster", "FASTER", around(1.1), around(1.0), "5%"),
    ("the_same_samples", "SAME", around(1.0), around(1.0), "5%"),
    ("apart_but_within_the_threshold", "SAME", around(1.0), around(1.04), "5%"),
    ("apart_and_past_a_smaller_threshold", "SLOWER", around(1.0), around(1.04), "3%"),
    ("past_the_threshold_but_not_apart", "SAME", around(1.0, 0.02, 200), around(1.002, 0.02, 200), "0.1%"),
    ("one_sample_now", "UNKNOWN", around(1.0), [2.0], "5%"),
    ("one_sample_before", "UNKNOWN", [1.0], around(2.0), "5%"),
    ("not_settled_and_apart", "SLOWER", around(1.0), around(10.0, 0.2), "5%"),
    ("not_settled_before_and_apart", "FASTER", around(10.0, 0.2), around(1.0), "5%"),
    ("not_settled_and_not_apart", "UNKNOWN", around(1.0), around(1.1, 0.3), "5%"),
    ("not_settled_and_within_the_threshold", "UNKNOWN", around(1.0), around(1.08, 0.05), "10%"),
])
class Verdicts(ReportCase):
    def check(self, verdict, before, now, threshold):
        self.write("old.json", bench(row("tiled", before)))
        self.write("new.json", bench(row("tiled", now)))
        words = ["new.json", "--against", "old.json", "--threshold", threshold]
        comparison = self.report(*words)["comparison"]
        self.assertEqual([one["verdict"] for one in comparison["rows"]], [verdict])
        self.assertEqual(comparison[verdict], 1)
        found = comparison["rows"][0]
        self.assertAlmostEqual(found["ratio"], np.median(now) / np.median(before))
        for side, samples in (("now", now), ("before", before)):
            self.assertAlmostEqual(found[side]["median_ms"], np.median(samples))
            self.assertEqual((found[side]["low_ms"], found[side]["high_ms"]), interval(samples) or (None, None))
            self.assertEqual(found[side]["settled"], settled(samples))
        for what, failing in (("slower", {"SLOWER"}), ("unknown", {"UNKNOWN"}), ("slower,unknown", {"SLOWER", "UNKNOWN"})):
            result = self.run_tool("report", *words, "--json", "--fail-on", what, code=1 if verdict in failing else 0)
            self.assertEqual(result.json()["exit_code"], result.code)
            self.assertEqual("1 of 1 measurements are" in result.err, verdict in failing, str(result))


class Runs(ReportCase):
    def test_of_other_problems_are_others(self):
        write_h5(self.path("a.h5"), np.ones((40, 40)))
        for words in (["transpose", "a.h5"], ["transpose", "a.h5", "--in-place"], ["multiply", "a.h5", "a.h5"],
                      ["multiply", "a.h5", "a.h5", "--transpose-a"], ["multiply", "a.h5", "a.h5", "--transpose-b"]):
            self.run_tool(*words, "-d", "cpu", "-l", "1", "--log", "runs.jsonl")
        rows = [row for row in self.report("runs.jsonl")["measurements"] if row["what"] == "kernel"]
        self.assertEqual(len({row["level"] for row in rows if row["op"] == "transpose"}), 2, str(rows))
        self.assertEqual(len({row["level"] for row in rows if row["op"] == "multiply"}), 3, str(rows))

    def test_of_other_work_are_others(self):
        write_h5(self.path("a.h5"), np.ones((40, 40)))
        for words in ([], ["--verify", "none"], ["--repeat", "3"], ["-o", "b.h5"], ["-o", "b.mtx"], ["--force", "-o", "b.h5"]):
            self.run_tool("transpose", "a.h5", *words, "-d", "cpu", "-l", "1", "--log", "runs.jsonl")
        rows = self.report("runs.jsonl")["measurements"]
        self.assertEqual([row["what"] for row in rows].count("kernel"), 1, str(rows))
        self.assertEqual([row["what"] for row in rows].count("whole run"), 5, str(rows))


class Comparisons(ReportCase):
    def test_rows_are_matched_by_what_was_measured(self):
        def log(scale, only):
            return bench(row("tiled", around(1.0 * scale)), row("tiled", around(3.0 * scale), size=512),
                         row("tiled", around(2.0 * scale), parameters={"tile": "32"}), row(only, around(1.0)))
        self.write("old.json", log(1, "gone"))
        self.write("new.json", log(1.5, "fresh"))
        comparison = self.report("new.json", "--against", "old.json")["comparison"]
        self.assertEqual([round(one["ratio"], 6) for one in comparison["rows"]], [1.5] * 3)
        self.assertEqual([one["level"] for one in comparison["only_now"]], ["fresh"])
        self.assertEqual([one["level"] for one in comparison["only_before"]], ["gone"])

    def test_devices_are_apart_where_a_log_has_several(self):
        one, other = bench(row("tiled", around(1.0)), device="A"), bench(row("tiled", around(9.0)), device="B")
        self.write("one.json", one)
        self.write("other.json", other)
        self.write("both.json", one, other)
        self.assertEqual(self.report("other.json", "--against", "one.json")["comparison"]["SLOWER"], 1)
        self.assertEqual(self.report("both.json", "--against", "one.json")["comparison"]["SAME"], 1)

    def test_runs_of_one_problem_are_one_measurement(self):
        totals = around(20.0, 0.005, 40)
        self.write("runs.jsonl", *[run(total=total) for total in totals], run(exit_code=1, total=500.0), run(dry_run=True, total=1.0))
        whole = [one for one in self.report("runs.jsonl")["measurements"] if one["what"] == "whole run"]
        self.assertEqual(len(whole), 1)
        self.assertAlmostEqual(whole[0]["median_ms"], np.median(totals))
        self.assertEqual((whole[0]["low_ms"], whole[0]["high_ms"]), interval(totals))

    def gate(self, which, code):
        result = self.run_tool("report", "new.json", "--against", "old.json", "--json", "--fail-on", which, code=code)
        self.assertEqual(result.json()["exit_code"], code)
        return result

    def test_what_is_no_longer_measured_is_unknown(self):
        """Gone, or without a time because it failed or cannot run."""
        other = row("tiled", around(1.0))
        self.write("old.json", bench(other, row("naive", around(1.0))))
        for rows in ([], [row("naive", [], verdict="failed")], [row("naive", [], verdict=None, reason="no such device")]):
            self.write("new.json", bench(other, *rows))
            self.gate("slower", 0)
            self.assert_says(self.gate("slower,unknown", 1), "1 of what was measured before is not measured now", "naive")
        self.write("new.json", bench(other, row("naive", around(1.0)), row("fresh", around(1.0))))
        self.gate("slower,unknown", 0)

    def test_a_run_that_failed_is_unknown(self):
        """Whether another one of it did not fail, or none."""
        self.write("old.json", *[run(total=total) for total in around(20.0)])
        for good in (31, 0):
            self.write("new.json", bench(row("tiled", around(1.0))), run(exit_code=1), *[run(total=total) for total in around(20.0, count=good)])
            self.write("old.json", bench(row("tiled", around(1.0))), *[run(total=total) for total in around(20.0)])
            self.gate("slower", 0)
            self.gate("unknown", 1)

    def test_repeats_hide_nothing(self):
        fast, slow = bench(row("tiled", around(1.0))), bench(row("tiled", around(2.0)))
        failed = bench(row("tiled", [], verdict="failed"))
        for now, before, verdict, ratio in (
                ([fast, fast, slow], [fast], "SLOWER", 2), ([slow, fast, fast], [fast], "SLOWER", 2),
                ([slow], [fast, slow], "UNKNOWN", None), ([fast], [slow, slow], "FASTER", 0.5),
                ([fast, slow], [slow], "UNKNOWN", None), ([fast, fast], [fast, fast], "SAME", 1),
                ([fast, failed], [fast], "UNKNOWN", 1), ([failed, fast], [fast], "UNKNOWN", 1),
                ([failed, slow], [fast], "SLOWER", 2), ([fast], [failed, fast], "SAME", 1)):
            with self.subTest(verdict=verdict, now=len(now), before=len(before)):
                self.write("new.json", *now)
                self.write("old.json", *before)
                rows = self.report("new.json", "--against", "old.json")["comparison"]["rows"]
                self.assertEqual([one["verdict"] for one in rows], [verdict])
                if ratio is not None:
                    self.assertAlmostEqual(rows[0]["ratio"], ratio)

    def test_nothing_in_common(self):
        self.write("old.json", bench(row("tiled", around(1.0), size=512)))
        self.write("new.json", bench(row("tiled", around(1.0))))
        result = self.run_tool("report", "new.json", "--against", "old.json", "-o", "x.md", code=3)
        self.assert_says(result, "nothing in common")
        self.assertFalse(os.path.exists(self.path("x.md")))


class Contents(ReportCase):
    def test_failures_come_first_with_their_commands(self):
        job = {"schema": "gpumat.verify/1", "op": "transpose", "error": "it differs", "exit_code": 1, "job": {"line": 3, "text": "verify transpose a b"}}
        failed = bench(row("tiled", [], verdict="failed", note="12 elements differ", median_ms=None))
        self.write("runs.jsonl", run(), run(exit_code=3, error="no.h5: missing", command_line="gpumat transpose no.h5"), job, failed)
        report = self.report("runs.jsonl")
        self.assertEqual([(one["source"], one["exit_code"]) for one in report["failures"]],
                         [("runs.jsonl:2", 3), ("runs.jsonl:3", 1), ("runs.jsonl:4", None)])
        text = self.markdown("runs.jsonl")
        places = [text.index(part) for part in ("## Failures", "no.h5: missing", "```\ngpumat transpose no.h5\n```", "gpumat verify transpose a b",
                                                "12 elements differ", "```\ngpumat bench transpose\n```", "## Environment", "## Runs")]
        self.assertEqual(places, sorted(places))

    def test_differences_of_the_environment(self):
        self.write("old.jsonl", run(), run(version="0.0.9"))
        self.write("new.jsonl", run())
        facts = {fact["name"]: fact for fact in self.report("new.jsonl", "--against", "old.jsonl")["environment"]}
        self.assertEqual([name for name, fact in facts.items() if fact["differs"]], ["version"])
        self.assertEqual(facts["version"]["values"], [{"value": "0.1.0", "records": 1}])
        self.assertEqual(facts["version"]["against"], [{"value": "0.0.9", "records": 1}, {"value": "0.1.0", "records": 1}])
        self.assertIn("| version | 0.1.0 | 0.0.9 (1 record); 0.1.0 (1 record) | differs |",
                      self.markdown("new.jsonl", "--against", "old.jsonl"))

    def test_rest_is_what_no_stage_covers(self):
        self.write("runs.jsonl", run(stages=[("write", 7, 8, 1), ("read", 1, 3, 2), ("kernel", 2, 5, 1)]), run(total=3.0))
        self.assertEqual([one["rest_ms"] for one in self.report("runs.jsonl")["runs"]], [1 + 2 + 2, None])
        self.assertIn("rest: 5.000 ms, 0 to 1.000, 5.000 to 7.000, 8.000 to 10.00\n", self.markdown("runs.jsonl"))

    def test_bars_of_text(self):
        self.write("bench.json", bench(row("slow", around(4.0)), row("fast", around(1.0))))
        lines = self.markdown("bench.json").splitlines()
        bars = {line.split()[0]: line.count("█") for line in lines if "█" in line}
        self.assertEqual(bars, {"slow": 10, "fast": 40})

    def test_what_did_not_settle_is_marked(self):
        rows = [row("first", around(4.0)), row("noisy", around(2.0, 0.3), gain_over_previous=2.0, gain_over_previous_settled=False),
                row("calm", around(1.0), gain_over_previous=2.0, gain_over_previous_settled=False, gain_over_first=4.0, gain_over_first_settled=True)]
        self.write("bench.json", bench(*rows))
        table = [line for line in self.markdown("bench.json").splitlines() if line.startswith("| kernel")]
        self.assertIn("\\~2.00x", table[1])
        self.assertIn("\\~2.00x | 4.00x", table[2])
        self.assertEqual([one["settled"] for one in self.report("bench.json")["measurements"]], [True, False, True])

    def test_objects_over_several_lines_and_lines_after_them(self):
        with open(self.path("log"), "w", encoding="utf-8") as file:
            file.write(json.dumps(bench(row("tiled", around(1.0))), indent=2) + "\n\n" + json.dumps(run(exit_code=7, error="x")) + "\n")
        report = self.report("log")
        self.assertEqual(report["failures"][0]["source"], f"log:{json.dumps(bench(row('tiled', around(1.0))), indent=2).count(chr(10)) + 3}")
        self.assertEqual(len(report["measurements"]), 1)

    def test_what_differs_is_told(self):
        """As the commands themselves tell it: the files, how much, and where."""
        a = random_values("f64", (5, 7))
        b, wrong = a.copy(), a.T.copy()
        b[2, 3], b[4, 6], wrong[6, 1] = 99, 98, 97.5
        for name, matrix in (("a", a), ("b", b), ("wrong", wrong)):
            write_h5(self.path(name + ".h5"), matrix)
        with open(self.path("jobs.txt"), "w", encoding="utf-8") as file:
            file.write("compare a.h5 b.h5\nverify transpose a.h5 wrong.h5\ncompare a.h5 wrong.h5\n")
        self.run_tool("batch", "jobs.txt", "--jobs", "1", "--log", "log.jsonl", code=1)
        compared, verified, unlike = (one["what"] for one in self.report("log.jsonl")["failures"])
        self.assertEqual(compared, f"a.h5:/A and b.h5:/A differ: 2 of 35 elements; the first is row 3, column 4: {a[2, 3]} and 99.0")
        self.assertRegex(verified, r"^wrong.h5:/A is not the transpose of a.h5:/A: 1 element differs; "
                                   r"the worst is row 7 of 7, column 2 of 5: computed 97.5, expected ")
        for word in ("a.h5", "wrong.h5", "5x7", "7x5"):
            self.assertIn(word, unlike)

    def test_comparisons_and_batches_fail_too(self):
        self.write("compare.json", {"schema": "gpumat.compare/1", "verdict": "different", "error": None, "exit_code": 1,
                                    "job": {"line": 2, "text": "compare a.h5 b.h5"}})
        self.write("batch.json", {"schema": "gpumat.batch/1", "exit_code": 3})
        failures = self.report("compare.json", "batch.json")["failures"]
        self.assertEqual([(one["command_line"], one["exit_code"]) for one in failures],
                         [("gpumat compare a.h5 b.h5", 1), (None, 3)])
        self.assertNotIn("None: no run failed", self.markdown("compare.json"))

    def test_what_is_too_much_to_draw_is_in_the_table(self):
        self.write("bench.json", bench(*[row(f"level{i}", around(1.0)) for i in range(3000)]))
        text = self.markdown("bench.json")
        self.assertIn("1 chart", text)
        self.assertNotIn("█", text)
        self.assertEqual(sum(line.startswith("| kernel") for line in text.splitlines()), 3000)

    def test_standard_input(self):
        report = self.report("-", stdin=json.dumps(run()).encode())
        self.assertEqual(report["logs"], ["standard input"])


@unittest.skipUnless(HAS_GNUPLOT, "gnuplot is not installed")
class Html(ReportCase):
    def check_page(self, text):
        """It needs nothing else, and runs its own script only."""
        page = Page(text)
        self.assertLessEqual(set(page.tags), TAGS)
        for name, value in page.attributes:
            self.assertFalse(name.startswith("on"), name)
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.assertTrue(value.startswith("#"), value)
        self.assertEqual(len(page.scripts), 1)
        digest = base64.b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
        policy = next(value for name, value in page.attributes if name == "content" and "script-src" in value)
        self.assertIn(f"'sha256-{digest}'", policy)
        self.assertTrue(policy.startswith("default-src 'none'"))
        opened = [tag for tag in page.stack if tag in ("table", "pre", "svg", "figure", "div", "details")]
        closed = [tag for tag in page.stack if tag in ("/table", "/pre", "/svg", "/figure", "/div", "/details")]
        self.assertEqual(len(opened), len(closed))
        return page

    def test_every_kind_of_figure(self):
        ladder = bench(row("copy", around(0.5), baseline=True), row("tiled", around(2.0)), row("padded", around(1.0)))
        sweep = bench(*[row(level, around(size / 100), size=size) for size in (64, 128, 256, 512) for level in ("tiled", "padded")], cache="hot")
        runs = run(stages=[("read", 1, 3, 2), ("kernel", 2, 5, 1)])
        self.write("logs.jsonl", ladder, sweep, runs)
        page = self.check_page(self.page("logs.jsonl"))
        headings = [text for text in page.texts if text in ("Failures", "Ladders", "Sweeps", "Roofline", "Measurements", "Runs", "Environment")]
        self.assertEqual(headings[:len(headings) // 2], ["Failures", "Environment", "Ladders", "Sweeps", "Roofline", "Measurements", "Runs"])
        # A ladder, a sweep, a roofline (none of the run, which is one point alone), a timeline; and their marks once for all.
        self.assertEqual((page.tags.count("figure"), page.tags.count("svg"), page.tags.count("defs")), (4, 5, 1))
        for word in ("fastest copy", "rest", "read"):
            self.assertIn(word, page.texts)

    def test_one_colour_a_level(self):
        self.write("bench.json", bench(row("tiled", around(2.0)), row("padded", around(1.0)), row("copy", around(1.0), baseline=True)))
        text = self.page("bench.json")
        colours = dict(re.findall(r'background:(#\w{6})"></i>(\w+)<', text)[::-1])
        by_level = {level: colour for colour, level in colours.items()}
        self.assertEqual(len(by_level), 3)
        polygons = re.findall(r"polygon fill = 'rgb\( *(\d+), *(\d+), *(\d+)\)'", text)
        drawn = ["#%02X%02X%02X" % tuple(map(int, one)) for one in polygons]
        self.assertEqual(drawn, [by_level["tiled"], by_level["padded"], by_level["copy"]])
        for level in ("tiled", "padded"):
            red, green, blue = (int(by_level[level][i:i + 2], 16) for i in (1, 3, 5))
            self.assertRegex(text, rf"<use [^>]*color='rgb\( *{red}, *{green}, *{blue}\)'")  # on the roofline

    def test_hostile_names_stay_text(self):
        hostile = bench(row(EVIL, around(1.0), note=EVIL, type=EVIL), row("tiled", around(1.0), type=EVIL, parameters={EVIL: EVIL}),
                        device=EVIL, host=EVIL, version=EVIL, cache=EVIL, settings={EVIL: EVIL}, command=["gpumat", EVIL])
        sweep = bench(*[row(EVIL, around(1.0), size=size, reason=EVIL, verdict="failed") for size in (1, 2, 3, 4, 5)], device=EVIL)
        stage = run(exit_code=1, error=EVIL, command_line=EVIL, level=EVIL, op=EVIL, stages=[(EVIL, 0, 1, 1)])
        probe = {"schema": "gpumat.probe/1", "device": {"name": EVIL}, "probes": [{"name": "roofline", "tables": [{"rows": [
            {"ceiling": EVIL, "rate": 1.0, "unit": "GB/s"},
            {"operation": EVIL, "level": EVIL, "W, 10⁹ operations": 1.0, "Q, MB": 1.0, "measured ms": 1.0}]}]}]}
        name = EVIL.replace("/", "").replace("\x1b", "")
        self.write(name, hostile, sweep, stage, probe)
        page = self.check_page(self.page(name, "--against", name))
        everything = "".join(page.texts)
        self.assertIn("<script>alert(1)</script>", everything)
        for steering in "\u202e\x1b":
            self.assertNotIn(steering, everything)
        text = self.markdown(name, "--against", name)
        fence = None
        for line in text.splitlines():
            mark = re.match(r"`{3,}$", line)
            if mark and fence in (None, line):
                fence = line if fence is None else None
            elif fence is None:
                self.assertNotRegex(re.sub(r"\\\\", "", line), r"(?<!\\)[<>&`]", line)
                self.assertFalse(line.startswith("# x"), line)
        self.assertIsNone(fence)

    def test_what_the_tool_itself_records(self):
        write_h5(self.path("a.h5"), random_values("f32", (100, 100)))
        for _ in range(2):
            self.run_tool("transpose", "a.h5", "-o", "b.h5", "--force", "--log", "runs.jsonl")
        self.run_tool("transpose", "no.h5", "--log", "runs.jsonl", code=3)
        bench_words = ["bench", "transpose", "--size", "64", "-d", "cpu", "--time-limit", "0.01", "--json"]
        probe_words = ["probe", "roofline", "-d", "cpu", "--size", "64", "--time-limit", "0.005", "--json"]
        for words in (bench_words, probe_words):
            with open(self.path(words[0] + ".json"), "wb") as file:
                file.write(self.run_tool(*words).out_bytes)
        page = self.check_page(self.page("runs.jsonl", "bench.json", "probe.json"))
        self.assertIn("copy, read and written", page.texts)
        self.assertIn("transpose no.h5 --log runs.jsonl", "".join(page.texts))
        report = self.report("runs.jsonl", "bench.json", "probe.json")
        with open(self.path("bench.json"), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        medians = {one["level"]: one["median_ms"] for one in report["measurements"] if one["cache"]}
        self.assertEqual(set(medians), {one["level"] for one in rows})
        for one in rows:
            self.assertAlmostEqual(medians[one["level"]], one["median_ms"])


@cases([
    ("missing", 3, ["no.jsonl"], "no.jsonl -o x.md"),
    ("folder", 3, ["cannot be read"], ". -o x.md"),
    ("empty", 3, ["empty: holds no"], "empty -o x.md"),
    ("no_log", 3, ["text:1: is no record"], "text -o x.md"),
    ("no_log_at_its_second_line", 3, ["mixed:2: is no record"], "mixed -o x.md"),
    ("csv", 3, ["runs.csv:1: is no record"], "runs.csv -o x.md"),
    ("binary", 3, ["a.h5:", "holds the byte \\x00"], "a.h5 -o x.md"),
    ("no_json", 3, ["broken:1: is no record", "JSON"], "broken -o x.md"),
    ("no_schema", 3, ["plain:1: is no record", "schema"], "plain -o x.md"),
    ("newer_schema", 3, ["newer:2: has the schema gpumat.run/2"], "newer -o x.md"),
    ("only_a_cut_record", 3, ["onlycut: holds no whole record"], "onlycut -o x.md"),
    ("rows_of_another_type", 3, ["rows:1: is no gpumat.bench/1"], "rows -o x.md"),
    ("exit_code_of_another_type", 3, ["code:1: is no gpumat.run/1"], "code -o x.md"),
    ("stages_of_another_type", 3, ["stages:1: is no gpumat.run/1"], "stages -o x.md"),
    ("deep", 3, ["deep:1: is no record"], "deep -o x.md"),
    ("old_log_is_none", 3, ["text:1: is no record"], "good --against text -o x.md"),
    ("csv_and_json", 2, ["--csv", "--json"], "good --csv --json"),
    ("another_ending", 2, [".html or .md"], "good -o x.pdf"),
    ("standard_output", 2, [".html or .md"], "good -o -"),
    ("no_log_named", 2, ["is required"], "-o x.md"),
    ("threshold_without_unit", 2, ["--threshold", "5%"], "good --threshold 5 -o x.md"),
    ("negative_threshold", 2, ["--threshold"], "good --threshold=-5% -o x.md"),
    ("endless_threshold", 2, ["--threshold"], "good --threshold inf% -o x.md"),
    ("fail_on_what", 2, ["--fail-on"], "good --fail-on faster -o x.md"),
    ("fail_on_without_old_logs", 2, ["--against"], "good --fail-on slower -o x.md"),
    ("existing", 4, ["it exists"], "good -o old.md"),
    ("no_folder", 4, ["none"], "good -o none/x.md"),
    ("the_log_itself", 4, ["never overwritten"], "log.md --force -o log.md"),
])
class Refusals(ReportCase):
    def setUp(self):
        super().setUp()
        good = json.dumps(run())
        for name, text in {
                "empty": "", "text": "hello\n", "mixed": good + "\nhello\n", "runs.csv": "schema,time\n", "broken": "{\"schema\":: 1}\n",
                "plain": "{\"op\": 1}\n", "newer": good + "\n" + json.dumps({"schema": "gpumat.run/2"}) + "\n", "onlycut": good[:50],
                "rows": json.dumps(bench(rows=5)), "code": json.dumps(run(exit_code="x")), "stages": json.dumps({**run(), "stages": [5, {"name": 3}]}),
                "deep": "{\"schema\":" + "[" * 1000000 + "]" * 1000000 + "}", "good": good, "old.md": "old", "log.md": good}.items():
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        write_h5(self.path("a.h5"), random_values("f32", (4, 4)))

    def check(self, code, words, line):
        before = {name for name in os.listdir(self.folder)}
        self.assert_says(self.run_tool("report", *line.split(), code=code), *words)
        self.assertEqual({name for name in os.listdir(self.folder)}, before)


class Sources(ReportCase):
    """A log may come through a pipe; what has no end, or into which nobody writes, is refused."""

    def check_runs(self, name, **options):
        self.assertEqual(len(self.report(name, **options)["runs"]), 1, name)

    def test_pipes(self):
        text = json.dumps(run()).encode() + b"\n"
        for name in ("-", "/dev/stdin"):
            self.check_runs(name, stdin=text)
        reading, writing = os.pipe()
        os.write(writing, text)
        os.close(writing)
        self.check_runs(f"/dev/fd/{reading}", pass_fds=[reading])
        os.close(reading)
        os.mkfifo(self.path("fifo"))

        def write_late():
            time.sleep(0.5)
            with open(self.path("fifo"), "wb", buffering=0) as fifo:
                fifo.write(text[:20])
                time.sleep(0.5)
                fifo.write(text[20:])

        writer = threading.Thread(target=write_late)
        writer.start()
        self.check_runs("fifo")
        writer.join()

    def test_without_an_end(self):
        os.mkfifo(self.path("fifo"))
        for verb in (["report", "-o", "x.md"], ["batch"]):
            begin = time.monotonic()
            self.assert_says(self.run_tool(*verb, "/dev/zero", code=3), "/dev/zero:1: holds the byte \\x00")
            self.run_tool(*verb, "fifo", code=3)
            self.assertLess(time.monotonic() - begin, 60)
        self.assert_says(self.run_tool("report", "/dev/null", "-o", "x.md", code=3), "no whole record")
        self.assert_says(self.run_tool("report", ".", "-o", "x.md", code=3), "directory")


class Cut(ReportCase):
    def test_the_rest_is_reported(self):
        whole = json.dumps(run())
        for cut in (10, 11, 100, len(whole) - 1):
            for after in ("", "\n" + whole + "\n"):
                with open(self.path("log"), "w", encoding="utf-8") as file:
                    file.write(whole + "\n" + whole[:cut] + after)
                result = self.run_tool("report", "log", "-o", "page.md", "--force", "--json", code=3)
                self.assert_says(result, "log:2: the record has no end")
                report = result.json()
                self.assertEqual((report["cut"], len(report["runs"]), report["exit_code"]), (["log:2"], 2 if after else 1, 3))
                with open(self.path("page.md"), encoding="utf-8") as file:
                    self.assertIn("log:2: the record has no end", file.read())

    def test_a_bench_that_was_killed(self):
        lines = "\n".join(['{"schema":"gpumat.bench/1","device":{"name":"x"}, "cache":"cold", "rows": [', json.dumps(row("tiled", around(1.0))) + ","])
        with open(self.path("log"), "w", encoding="utf-8") as file:
            file.write(lines + "\n" + json.dumps(run()))
        report = self.report("log", code=3)
        self.assertEqual((report["cut"], len(report["runs"])), (["log:1"], 1))


class Gnuplot(ReportCase):
    def test_without_it_a_page_in_html_is_refused_and_one_in_markdown_made(self):
        self.write("log", run())
        result = self.run_tool("report", "log", "-o", "x.html", code=4, env={"PATH": self.folder})
        self.assert_says(result, "x.html", "gnuplot is not installed", ".md")
        self.run_tool("report", "log", "-o", "x.md", env={"PATH": self.folder})
        self.assertEqual(sorted(os.listdir(self.folder)), ["log", "x.md"])


class Bench(Case):
    def test_rows_say_whether_they_settled(self):
        words = ["bench", "transpose", "--size", "64,256", "-d", "cpu", "--time-limit", "0.02"]
        document = self.run_tool(*words, "--json").json()
        previous = first = problem = None
        for one in document["rows"]:
            samples = one["samples_ms"]
            self.assertEqual(one["settled"], settled(samples), one["level"])
            self.assertEqual("did not settle" in (one["note"] or ""), not settled(samples) and len(samples) > 1, one["note"])
            if problem != one["n"]:
                previous, first, problem = None, None, one["n"]
            if one["baseline"]:
                continue
            for gain, other in (("gain_over_previous", previous), ("gain_over_first", first)):
                expected = None if other is None else one["settled"] and other["settled"]
                self.assertEqual(one[gain + "_settled"], expected, one["level"])
            previous, first = one, first or one

    def test_csv_names_fields_as_json_does_and_ends_lines_alike(self):
        words = ["bench", "reduce", "--op", "norm", "--size", "64", "-d", "cpu", "--time-limit", "0.01"]
        document = self.run_tool(*words, "--json").json()
        out = self.run_tool(*words, "--csv").out_bytes
        self.assertNotIn(b"\r", out)
        rows = list(csv.DictReader(out.decode().splitlines()))
        self.assertEqual([one["level"] for one in rows], [one["level"] for one in document["rows"]])
        self.assertEqual(document["settings"]["op"], "norm")
        for name, value in rows[0].items():
            place = document["rows"][0] if name in document["rows"][0] else document
            for part in name.split("."):
                place = place[part]
            if name in ("version", "host", "cache", "device.kind", "device.name", "device.threads", "op", "level", "m"):
                self.assertEqual(value, str(place), name)
        for name in ("version", "host", "cache", "device.threads"):
            self.assertIn(name, rows[0])
        write_h5(self.path("a.h5"), random_values("f32", (4, 4)))
        self.run_tool("transpose", "a.h5", "--log", "runs.csv")
        with open(self.path("runs.csv"), "rb") as file:
            log = file.read()
        self.assertNotIn(b"\r", log)
        self.assertEqual(log.count(b"\n"), 2)


if __name__ == "__main__":
    unittest.main()
