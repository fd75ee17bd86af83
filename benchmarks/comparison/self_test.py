"""Tests of the arithmetic and the parsing; nothing is run, nothing is measured."""

import argparse
import copy
import json
import os
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

import compare
from comparison import campaign, engine, machine, pairs, peers, plot, processes, report, store


def probe(fma=100.0, read=10.0):
    """What run_probe gives for two cores."""
    return [{"simd": "avx512", "fma_gflops": fma, "read_gb_s": read}] * 2


def run_of(steady_ms, fma=100.0, read=10.0, **more):
    """A record of a run, as far as the report reads it."""
    return {
        "steady_ms": steady_ms,
        "step_ms": [steady_ms] * 4,
        "probe": probe(fma, read),
        "losses": [7.0, 6.0],
        "load": [0.5, 0.4, 0.3],
        "steal": 0.0,
        "repeated": 0,
        "stolen": False,
        "memory": {"pss_peak": 100 * 2**20, "hwm_sum": 120 * 2**20},
        "command": "fmengine-train --deepspeed_config WORK/x.json",
        "flops_per_step": 1e9,
        "optimizer": "AdamW",
        **more,
    }


def pair_of(ours_ms, theirs_ms, **theirs):
    """One pair whose first probe is the usual one."""
    return {"ours": run_of(ours_ms), "theirs": run_of(theirs_ms, **theirs)}


class Pairs(unittest.TestCase):
    def test_order_is_abba(self):
        order = [half for pair in range(4) for half in pairs.order_of(pair)]
        letters = "".join({"ours": "A", "theirs": "B"}[half] for half in order)
        self.assertEqual(letters, "ABBAABBA")

    def test_steady_time_is_the_median_after_the_warm_up(self):
        self.assertEqual(pairs.steady([90, 80, 3, 1, 2], 2), 2)
        with self.assertRaises(ValueError):
            pairs.steady([90, 80], 2)

    def test_probes_five_percent_apart_are_noise(self):
        self.assertFalse(pairs.is_noisy(probe(100), probe(104.9)))
        self.assertTrue(pairs.is_noisy(probe(100), probe(105.1)))
        self.assertTrue(pairs.is_noisy(probe(105.1), probe(100)))
        self.assertTrue(pairs.is_noisy(probe(read=10), probe(read=10.6)))

    def test_noisy_pairs_are_dropped_and_counted(self):
        done = [pair_of(10, 20), pair_of(10, 90, fma=80.0), pair_of(10, 30)]
        summary = pairs.summarize(done, keep_noisy=False)
        self.assertEqual((summary["used"], summary["dropped"]), (2, 1))
        self.assertEqual((summary["ratio"], summary["theirs_ms"]), (2.5, 25))
        kept = pairs.summarize(done, keep_noisy=True)
        self.assertEqual((kept["used"], kept["dropped"], kept["ratio"]), (3, 0, 3.0))

    def test_a_pair_with_stolen_cpus_is_dropped_even_with_the_noisy_ones_kept(self):
        done = [pair_of(10, 20), pair_of(10, 50, stolen=True)]
        for keep in (False, True):
            summary = pairs.summarize(done, keep_noisy=keep)
            self.assertEqual((summary["ratio"], summary["dropped"]), (2.0, 1))

    def test_without_a_quiet_pair_there_is_no_ratio(self):
        summary = pairs.summarize([pair_of(10, 20, fma=80.0)], keep_noisy=False)
        self.assertEqual(summary, {"used": 0, "dropped": 1, "ratio": None})

    def test_ratio_is_the_median_of_ratios_not_the_ratio_of_medians(self):
        done = [pair_of(10, 20), pair_of(20, 100), pair_of(40, 120)]
        self.assertEqual(pairs.summarize(done, False)["ratio"], 3.0)  # medians: 100 / 20 = 5

    def test_a_smaller_step_time_of_ours_is_a_larger_ratio(self):
        self.assertEqual(pairs.summarize([pair_of(10, 18)], False)["ratio"], 1.8)


class Bootstrap(unittest.TestCase):
    def test_seven_values(self):
        # The median of a resample of 1..7 is at most k when 4 of 7 draws are: Binomial(7, k/7).
        # k = 1: P = 0.010 < 0.025; k = 2: P = 0.119 > 0.025. So the 2.5 % point is 2, and by
        # symmetry the 97.5 % point is 6.
        self.assertEqual(pairs.bootstrap_interval([3, 1, 4, 7, 5, 2, 6]), (2, 6))

    def test_level_counts(self):
        # k = 3: P = 0.359 > 0.25 > 0.119: the 25 % point is 3, the 75 % point 5.
        self.assertEqual(pairs.bootstrap_interval([1, 2, 3, 4, 5, 6, 7], 0.5), (3, 5))

    def test_three_values_give_their_range(self):
        # P(median of a resample is the smallest) = 7/27 = 0.259 > 0.025.
        self.assertEqual(pairs.bootstrap_interval([1.0, 2.0, 10.0]), (1.0, 10.0))

    def test_it_repeats_itself(self):
        values = [1.0 + 0.01 * i * i for i in range(40)]
        with unittest.mock.patch.object(pairs, "DRAWS", 20):  # few: another seed would show
            intervals = {pairs.bootstrap_interval(values, 0.5) for _ in range(5)}
        self.assertEqual(len(intervals), 1)


class Admission(unittest.TestCase):
    def test_equal_work_passes(self):
        first, worst = pairs.check_losses([8.0, 7.0], [8.000004, 7.0001])
        self.assertAlmostEqual(first, 5e-7, delta=1e-9)
        self.assertAlmostEqual(worst, 1.43e-5, delta=1e-7)

    def test_the_first_step_is_strict(self):
        with self.assertRaises(pairs.NotAdmitted):
            pairs.check_losses([8.0, 7.0], [8.00001, 7.0])

    def test_every_later_step_counts(self):
        with self.assertRaises(pairs.NotAdmitted):
            pairs.check_losses([8.0, 7.0, 6.0], [8.0, 7.0, 6.0002])

    def test_losses_after_step_50_do_not_count(self):
        pairs.check_losses([8.0] * 51, [8.0] * 50 + [9.0])
        with self.assertRaises(pairs.NotAdmitted):
            pairs.check_losses([8.0] * 51, [8.0] * 49 + [9.0, 8.0])

    def test_another_number_of_steps_or_nan_fails(self):
        for ours, theirs in (([8.0], [8.0, 7.0]), ([], []), ([float("nan")], [8.0])):
            with self.assertRaises(pairs.NotAdmitted):
                pairs.check_losses(ours, theirs)

    def test_a_refused_peer_keeps_no_times(self):
        entry = compare.judge(run_of(10.0), run_of(20.0, losses=[7.0, 6.1]))
        self.assertIn("losses differ", entry["refused"])
        self.assertFalse([name for name in entry["record"] if name.endswith("_ms")])

    def test_fastest_admitted_peer_and_deepspeed_at_our_stage_are_chosen(self):
        options = argparse.Namespace(against=None, zero="2")
        times = {"ddp": 50, "fsdp2": 90, "deepspeed0": 40, "deepspeed2": 60}
        screened = {name: compare.judge(run_of(10.0), run_of(time)) for name, time in times.items()}
        screened["deepspeed0"] = {"record": {}, "refused": "losses differ"}
        self.assertEqual(compare.chosen(options, screened), ["ddp", "deepspeed2"])


METRICS = """\
{"step": 1, "loss": 7.5, "gflops": 50.0, "step_time": 0.2, "skipped": false}
{"step": 2, "loss": 7.4, "gflops": 100.0, "step_time": 0.1, "skipped": false}
{"step": 2, "loss": 7.25, "gflops": 80.0, "step_time": 0.125, "skipped": false}
"""


class Parsing(unittest.TestCase):
    def test_metrics_of_ours(self):
        got = engine.parse_metrics(METRICS)
        self.assertEqual(got["losses"], [7.5, 7.25])
        self.assertEqual(got["step_ms"], [200.0, 125.0])
        self.assertAlmostEqual(got["flops_per_step"], 1e10)

    def test_a_missing_or_skipped_step_is_refused(self):
        for text in (METRICS.split("\n", 1)[1], METRICS.replace("false}\n", "true}\n", 1), ""):
            with self.assertRaises(ValueError):
                engine.parse_metrics(text)

    def test_result_of_a_peer(self):
        text = json.dumps(
            {
                "losses": [7.5, 7.25],
                "all_step_ms": [300.0, 110.0],
                "step_ms": 110.0,
                "versions": {"torch": "2.11.0", "python": "3.11"},
            }
        )
        got = peers.parse_result(text)
        self.assertEqual((got["losses"], got["step_ms"]), ([7.5, 7.25], [300.0, 110.0]))
        self.assertEqual(got["versions"]["torch"], "2.11.0")

    def test_hyper_parameters_come_from_the_peers_script(self):
        source = "import os\nADAMW = dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)\n"
        hyper = peers.constants(source + "CLIP = 1.0\nSEED = 1\n")
        config = peers.engine_config({"B": 2, "GA": 8}, hyper, ranks=2, zero=3)
        self.assertEqual(config["train_batch_size"], 32)
        self.assertEqual(config["gradient_clipping"], 1.0)
        self.assertEqual(config["zero_optimization"], {"stage": 3})
        self.assertEqual(config["optimizer"]["params"]["betas"], [0.9, 0.95])
        with self.assertRaises(ValueError):
            peers.constants(source)

    def test_cpu_names(self):
        self.assertEqual(machine.slug("Intel(R) Xeon(R) Processor"), "intel-xeon")
        self.assertEqual(machine.slug("AMD EPYC 9R45 64-Core Processor"), "amd-epyc-9r45-64-core")

    def test_generations_with_one_name_have_files_of_their_own(self):
        zen3 = {"cpu": "AMD EPYC", "family_model_stepping": "25/1/1"}
        zen4 = {"cpu": "AMD EPYC", "family_model_stepping": "25/17/1"}
        self.assertEqual(machine.short_name(zen3), "amd-epyc-25-1")
        self.assertEqual(machine.short_name(zen4), "amd-epyc-25-17")
        unknown = {"cpu": "aarch64", "family_model_stepping": "//"}
        self.assertEqual(machine.short_name(unknown), "aarch64")

    def test_shown_command_names_no_place(self):
        words = "--peers /x/p --python /x/v/bin/python --lock /x/l --pairs 2".split()
        shown = compare.shown_command(words)
        self.assertEqual(shown, "benchmarks/compare.py --peers PEERS --python PYTHON --pairs 2")

    def test_inner_folders_are_hidden_first(self):
        places = {"/a": "HOME", "/a/b/venv": "VENV", "/": "ROOT"}
        shown = machine.without_places("/a/b/venv/bin/torchrun /a/x /y", places)
        self.assertEqual(shown, "VENV/bin/torchrun HOME/x /y")

    def test_stolen_time(self):
        self.assertEqual(processes.stolen_fraction((10, 1000), (15, 1100)), 0.05)


class Stored(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.store = store.Store(f"{self.folder}/runs")
        self.key = {"workload": "W1", "side": "ours", "zero": 2, "role": "screen", "commit": "a"}

    def test_a_run_is_found_again(self):
        self.store.save(self.key, {"steady_ms": 1.0})
        found = self.store.load(dict(reversed(self.key.items())))
        self.assertEqual(found, {"steady_ms": 1.0})  # without its key, which names places

    def test_every_parameter_counts(self):
        self.store.save(self.key, {"steady_ms": 1.0})
        for name in self.key:
            self.assertIsNone(self.store.load({**self.key, name: "another"}), name)

    def test_half_a_pair_is_run_again(self):
        self.halves_left({"ours": {"steady_ms": 1.0}}, [])
        self.halves_left({"ours": {"steady_ms": 1.0}, "theirs": {"error": "exit 1"}}, [])
        both = {"ours": {"steady_ms": 1.0}, "theirs": {"steady_ms": 2.0}}
        self.halves_left(both, ["ours", "theirs"])

    def halves_left(self, records, want):
        run = campaign.Campaign.__new__(campaign.Campaign)
        run.store = self.store
        run.key = lambda work, side, zero, role: {**self.key, "side": side, "role": role}
        for half, record in records.items():
            self.store.save(run.key(None, half, None, campaign.role_of("p0", half)), record)
        run.forget_half(None, [(half, half, None) for half in ("ours", "theirs")], "p0")
        left = [
            half
            for half in ("ours", "theirs")
            if self.store.load(run.key(None, half, None, campaign.role_of("p0", half)))
        ]
        self.assertEqual(left, want)

    def test_a_run_whose_cpus_were_stolen_is_made_again(self):
        for steals, want in (
            ([0.01, 0.0], {"steal": 0.01, "repeated": 0, "stolen": False}),
            ([0.03, 0.02, 0.0], {"steal": 0.02, "repeated": 1, "stolen": False}),
            ([0.5, 0.4, 0.1, 0.3, 0.2, 0.0], {"steal": 0.1, "repeated": 4, "stolen": True}),
        ):
            run = campaign.Campaign.__new__(campaign.Campaign)
            run.options = argparse.Namespace(max_steal=0.02)
            made = iter(steals)
            run.execute = lambda key, work, sampler, made=made: {"steal": next(made)}
            run.wait_for_calm = lambda work: None
            with unittest.mock.patch.object(campaign, "say"):
                record = run.execute_calmly({"role": "p0", "side": "ddp"}, self.key, None)
            self.assertEqual(record, want)

    def test_a_run_begins_when_the_cpus_are_ours(self):
        run = campaign.Campaign.__new__(campaign.Campaign)
        run.options = argparse.Namespace(max_steal=0.02, lock=None)
        run.probe = "probe"
        with (
            unittest.mock.patch.object(processes, "cpu_ticks"),
            unittest.mock.patch.object(processes, "run_probe"),
            unittest.mock.patch.object(processes, "stolen_fraction", side_effect=[0.3, 0.021, 0.02, 0]),
            unittest.mock.patch.object(campaign.time, "sleep") as slept,
        ):
            run.wait_for_calm({"ranks": 2})
        self.assertEqual(slept.call_count, 2)

    def test_a_result_cut_short_is_no_result(self):
        path = f"{self.folder}/result.json"
        for text, whole in (('{"losses": [1', False), ('{"losses": [1]}', True)):
            with open(path, "w") as file:
                file.write(text)
            self.assertEqual(processes.is_json(path), whole)
        self.assertFalse(processes.is_json(f"{self.folder}/absent"))


class Reports(unittest.TestCase):
    def result(self):
        done = [pair_of(10, 18), pair_of(10, 20), pair_of(10, 19)]
        aa = [pair_of(10, 10), pair_of(10, 10.1)]
        return {
            "date": "2026-01-02",
            "machine": machine.describe(),
            "engine": {"commit": "0123456789ab", "changed": False, "binary": "00"},
            "version": "fmengine 0.1.0",
            "tuned": False,
            "keep_noisy": False,
            "command": "benchmarks/compare.py",
            "workloads": [
                {
                    "work": {"workload": "W1", "ranks": 2, "warmup": 1, "steps": 3},
                    "shape": {"hidden": 256},
                    "ours": {2: run_of(10)},
                    "screen": {
                        "ddp": compare.judge(run_of(10), run_of(18)),
                        "fsdp2": compare.judge(run_of(10), run_of(33.5, losses=[7.0, 6.1])),
                        "deepspeed3": {"record": {"error": "exit 1\nout of memory"}},
                    },
                    "aa": {"pairs": aa, "summary": pairs.summarize(aa, False)},
                    "comparisons": [
                        {
                            "peer": "ddp",
                            "zero": 2,
                            "pairs": done,
                            "summary": pairs.summarize(done, False),
                        },
                        {"peer": "deepspeed2", "zero": 2, "refused": "losses differ by 1e-3"},
                    ],
                }
            ],
        }

    def test_report_has_the_ratio_with_its_interval_and_the_counts(self):
        text = report.markdown(self.result(), "plot.svg")
        self.assertIn("| ZeRO-2 | DDP | 10.0 | 19.0 | **1.900 [1.800, 2.000]** | 3 / 0 |", text)
        self.assertIn("100 (50 %)", text)  # 1 GFLOP in 10 ms; two probes of 100
        self.assertIn("out of memory", text)

    def test_a_refused_peer_shows_no_number(self):
        text = report.markdown(self.result(), "plot.svg")
        row = next(line for line in text.splitlines() if line.startswith("| FSDP2"))
        self.assertIn("no speed", row)
        self.assertNotIn("33.5", text)
        self.assertIn("DeepSpeed ZeRO-2 | no speed: losses differ", text)

    def test_our_time_needs_a_peer_that_confirms_the_losses(self):
        result = self.result()
        done = result["workloads"][0]
        self.assertIn("| fmengine ZeRO-2 | 10.0 |", report.workload_text(done))
        done["screen"] = {"fsdp2": done["screen"]["fsdp2"]}
        done["comparisons"] = []
        self.assertIn("| fmengine ZeRO-2 | no speed |", report.workload_text(done))

    def test_noise_of_ours_against_ours_is_said(self):
        done = self.result()["workloads"][0]
        self.assertFalse([note for note in report.notes(done) if "A/A" in note])
        loud = copy.deepcopy(done)
        loud["aa"]["summary"]["high"] = 1.04
        self.assertTrue([note for note in report.notes(loud) if "A/A" in note])
        done["aa"]["pairs"][0]["ours"]["repeated"] = 3
        self.assertIn("3 runs were made again", report.notes(done)[-1])

    def test_small_claims_and_short_sides_are_said(self):
        done = self.result()["workloads"][0]
        self.assertIn("our timed steps lasted less than 3 s", report.notes(done))
        few = "DDP: 7 pairs are needed, the interval of 3 is only their range"
        self.assertIn(few, report.notes(done))
        done["comparisons"][0]["summary"].update(low=1.1, ours_ms=5000, used=7)
        self.assertNotIn(few, report.notes(done))
        self.assertIn("DDP: a claim below 1.2 needs 15 pairs", report.notes(done))
        self.assertNotIn("our timed steps lasted less than 3 s", report.notes(done))

    def test_files_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = report.write(self.result(), folder)
            suffixes = sorted(name.rsplit(".", 1)[1] for name in os.listdir(folder))
            self.assertEqual(suffixes, ["json", "md", "svg"])
            self.assertTrue(path.endswith(".md"))

    def test_plot_is_well_formed_and_drawn_to_scale(self):
        bars = [
            {"label": "W1 <&> DDP", "ratio": 2.0, "low": 1.8, "high": 2.1},
            {"label": "W2", "ratio": 1.0, "low": 0.9, "high": 1.1},
        ]
        root = xml.etree.ElementTree.fromstring(plot.draw('"title" & more', bars))
        boxes = [float(x.get("width")) for x in root if x.get("fill") == plot.FILL]
        self.assertAlmostEqual(boxes[0] / boxes[1], 2.0, delta=0.01)
        words = [x.text for x in root if x.tag.endswith("text")]
        self.assertIn("W1 <&> DDP", words)
        self.assertIn("2.00  [1.80, 2.10]", words)
        for x in root:
            if x.get("text-anchor") == "start" and x.get("font-size") == "12":
                self.assertLess(float(x.get("x")) + 6.5 * len(x.text), plot.WIDTH)

    def test_ticks_are_round_and_few(self):
        for largest, step in ((1.2, 0.2), (2.1, 0.5), (6.0, 1), (30.0, 5)):
            self.assertEqual(plot.tick_step(largest), step)


def run():
    """Exit code of the tests."""
    suite = unittest.defaultTestLoader.loadTestsFromName(__name__)
    return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1
