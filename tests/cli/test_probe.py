"""gpumat probe on the CPU: what it prints, records and refuses. What it measures is the machine's own."""

import json
import shutil
import unittest

from harness import Case

GPU_ONLY = ["banks", "divergence", "granularity"]


class Probe(Case):
    def probe(self, *words, code=0):
        return self.run_tool("probe", *words, "-d", "cpu", code=code)

    def result(self, *words):
        run = json.loads(self.probe(*words, "--json").out)
        self.assertEqual(run["schema"], "gpumat.probe/1")
        self.assertEqual(run["device"]["kind"], "cpu")
        return run["probes"][0]

    def test_what_a_cpu_means_nothing_to_is_refused_with_the_reason(self):
        for name in GPU_ONLY:
            self.assertIn("asks a GPU", self.probe(name, code=5).err)
        self.assertEqual(self.run_tool("probe", "banks", "-d", "gpu", code=5).out, "")
        self.probe("no-such-probe", code=2)

    def test_chains_and_operations_have_rates(self):
        chains = self.result("ilp")["tables"][0]["rows"]
        self.assertEqual([row["chains"] for row in chains], [1, 2, 4, 8, 16])
        self.assertTrue(all(row["10⁹ multiply-adds/s"] > 0 for row in chains))
        rates = {row["operation"]: row["10⁹ results/s"] for row in self.result("instructions")["tables"][0]["rows"]}
        self.assertGreater(len(rates), 10)
        self.assertTrue(all(rate > 0 for rate in rates.values()))

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
    def test_a_plot_is_drawn(self):
        plot = self.path("sets.svg")
        self.probe("camping", "--plot", plot)
        with open(plot, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("</svg>", text)
        self.assertIn("bytes from line to line", text)
        self.probe("camping", "--plot", plot, code=4)
        self.probe("all", "--plot", self.path("all.svg"), code=2)

    def test_roofline_has_every_level(self):
        result = self.result("roofline", "--size", "128", "--time-limit", "0.005")
        levels = {(row["operation"], row["level"]) for row in result["tables"][1]["rows"]}
        listed = json.loads(self.run_tool("levels", "-d", "cpu", "--json").out)["levels"]
        for level in listed:
            if level["role"] == "rung":
                self.assertIn((level["op"], level["name"]), levels)
        self.assertTrue(all(row["measured ms"] > 0 for row in result["tables"][1]["rows"]))
        # Of each bound the level closest to it is named, among those that it bounds.
        named = 0
        for bound in ("memory", "arithmetic"):
            rows = [row for row in result["tables"][1]["rows"] if row["by"] == bound]
            said = [text for text in result["shows"] if f"closest to the {bound}'s bound" in text]
            for text in said:
                named += 1
                operation, level = text.split("`")[1].split(" ", 1)
                self.assertIn((operation, level), [(row["operation"], row["level"]) for row in rows])
        self.assertGreater(named, 0)

    def test_occupancy_of_published_examples(self):
        # The course's: 10 registers × 256 threads are 3 blocks of a G80, 11 are 2; 16×16 tiles fill its 768 threads,
        # 8×8 cannot; 32×32 do not fit.
        for block, registers, blocks, limit in ((256, 10, 3, "threads"), (256, 11, 2, "registers"), (64, 5, 8, "blocks"),
                                                (1024, 8, 0, "threads")):
            rows = self.result("occupancy", "--compute-capability", "1.0", "--block", str(block), "--registers",
                               str(registers))["tables"][0]["rows"]
            self.assertEqual([(row["blocks"], row["limit"]) for row in rows], [(blocks, limit)])
        # 9.0: 65536 registers, 228 KiB of shared memory with 1 KiB of each block for the system, 2048 threads.
        for words, blocks in ((("--block", "256", "--registers", "64"), 4), (("--block", "128", "--registers", "168"), 3),
                              (("--block", "128", "--registers", "32", "--shared-bytes", str(100 * 1024)), 2),
                              (("--block", "96", "--registers", "16"), 21), (("--block", "32", "--registers", "16"), 32)):
            rows = self.result("occupancy", "--compute-capability", "9.0", *words)["tables"][0]["rows"]
            self.assertEqual([row["blocks"] for row in rows], [blocks], words)
        self.assertGreater(len(self.result("occupancy")["tables"][0]["rows"]), 10)
        self.assertIn("expected one of", self.probe("occupancy", "--compute-capability", "4.2", code=2).err)

    def test_energy_is_counted_or_not_known(self):
        done = self.probe("energy", "--size", "64", code=None)
        if done.code == 5:
            self.assertIn("energy is not counted", done.err)
        else:
            self.assertEqual(done.code, 0)


if __name__ == "__main__":
    unittest.main()
