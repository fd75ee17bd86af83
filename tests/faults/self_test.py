"""The checkers themselves: each must find a run that does wrong, and clear up behind it."""

import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import checkpoints
import cluster
import damage
import engines
import isolation
import jobs
import kills
import manifests
import metrics
import mutations
import run
import sockets
import suite
import tiny

HERE = pathlib.Path(__file__).resolve().parent
LINE = '{"step": %d, "loss": %s, "grad_norm": 1.5, "lr": 0.001, "tokens": 5}\n'


class Scratch(unittest.TestCase):
    """A folder with the fake program in it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fm_faults_self_"))
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(self.folder / "build")
        self.program = self.folder / "build" / "fmengine-train"
        self.program.write_text((HERE / "fake_train.py").read_text())
        self.program.chmod(0o755)

    def family(self, only=""):
        """A family of its own, quiet."""
        scratch = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        with contextlib.redirect_stdout(io.StringIO()):
            return suite.Suite("self", suite.Settings(self.folder / "build", scratch, only=only))

    def outcome(self, body, *arguments, wrong=""):
        """(exit code, what was printed) of a family of one case."""
        os.environ["FAULTS_FAKE"] = wrong
        self.addCleanup(os.environ.pop, "FAULTS_FAKE", None)
        family = self.family()
        with contextlib.redirect_stdout(io.StringIO()) as text:
            family.case("row/0", body, *[a(family) if callable(a) else a for a in arguments])
            code = family.finish()
        return code, text.getvalue()


class Engines(Scratch):
    """Ranks that engines start."""

    def test_a_rank_is_found_by_its_folder_and_the_variable_of_its_engine(self):
        program = self.folder / "fmengine-train"
        shutil.copy(shutil.which("sh"), program)
        for name in engines.RANKS:
            output = self.folder / name
            words = [program, "-c", "read line; exit 0", str(output)]
            with subprocess.Popen(words, env={name: "3"}, stdin=subprocess.PIPE) as rank:
                jobs.eventually(60, lambda: engines.ranks(output))
                self.assertEqual(engines.ranks(output), {3: rank.pid})
                self.assertEqual(engines.ranks(self.folder / "other"), {})
        self.assertEqual(engines.ranks(output), {})

    def test_hosts_without_root_are_skipped_with_the_reason(self):
        code, text = self.outcome(cluster.Cluster)
        self.assertEqual(code, 0)
        self.assertIn("skipped 1: ", text)


class Comparisons(Scratch):
    """Numbers of two runs."""

    def steps(self, *pairs, tail=""):
        path = self.folder / "metrics.jsonl"
        path.write_text("".join(LINE % pair for pair in pairs) + tail)
        return metrics.steps(path)

    def test_the_same_numbers_pass(self):
        one = self.steps((1, "5.5"), (2, "5.25"))
        self.assertEqual(metrics.difference(one, self.steps((1, "5.5"), (2, "5.25")), 2), "")

    def test_the_last_digit_counts(self):
        one = self.steps((1, "5.5"), (2, "5.250000000"))
        other = self.steps((1, "5.5"), (2, "5.250000001"))
        self.assertIn("step 2: loss", metrics.difference(one, other, 2))

    def test_a_missing_step_is_found(self):
        one = self.steps((1, "5.5"), (2, "5.25"), (3, "5.0"))
        other = self.steps((1, "5.5"), (3, "5.0"))
        self.assertIn("step 2 is missing", metrics.difference(one, other, 3))

    def test_a_step_too_many_is_found(self):
        one = self.steps((1, "5.5"), (2, "5.25"))
        other = self.steps((1, "5.5"), (2, "5.25"), (3, "5"))
        self.assertIn("not expected", metrics.difference(one, other, 2))

    def test_the_last_line_of_a_step_wins_and_a_torn_one_is_none(self):
        steps = self.steps((1, "5.5"), (2, "9"), (2, "5.25"), tail='{"step": 2, "lo')
        self.assertEqual(steps[2][0], "5.25")
        self.assertIn("line 3", metrics.repeated(self.folder / "metrics.jsonl"))

    def test_nan_in_a_file_is_found(self):
        for number, wanted in ((1.5, []), (float("nan"), ["t"]), (float("-inf"), ["t"])):
            header = b'{"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
            data = struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, number)
            (self.folder / "a.safetensors").write_bytes(data)
            self.assertEqual(checkpoints.not_finite(self.folder / "a.safetensors"), wanted)


class Families(Scratch):
    """Whole cases over the fake program."""

    def test_a_run_that_does_right_passes(self):
        code, text = self.outcome(kills.killed, tiny.ALONE, tiny.References)
        self.assertEqual(code, 0, text)
        code, text = self.outcome(damage.missing, damage_original)
        self.assertEqual(code, 0, text)

    def test_every_wrong_is_found(self):
        for wrong, words in (
            ("lose", "is missing"),
            ("drift", "loss is"),
            ("repeat", "every step once"),
            ("hang", "no end within"),
            ("leave", "no end within"),
            ("signal", "exit code 139"),
        ):
            with self.subTest(wrong):
                limit = 3 if words == "no end within" else jobs.PATIENCE_S
                code, text = self.outcome(finished_twice, tiny.References, limit, wrong=wrong)
                self.assertEqual(code, 1, text)
                self.assertIn(words, text)
                self.assertRegex(text, r"again: FAULTS=30 FAULTS_SEED=1 .* --case 'row/0'")
                self.assertEqual(isolation.processes_with("FAULTS_FAKE", wrong), [])

    def test_a_fresh_start_is_found(self):
        code, text = self.outcome(finished_twice, tiny.References, wrong="fresh")
        self.assertEqual(code, 1, text)
        self.assertIn("resumed at step 0 though step 8", text)

    def test_damage_that_is_taken_is_found(self):
        code, text = self.outcome(taken_damage, damage_original)
        self.assertEqual(code, 1, text)
        self.assertIn("resumed at step 12, expected 8", text)


def damage_original(family):
    """For outcome: the original needs the family."""
    return damage.Original(family)


def finished_twice(case, references, limit=jobs.PATIENCE_S):
    """A short run, then one to the end that may do wrong."""
    whole = tiny.Run(tiny.ALONE, steps=kills.STEPS)
    output = case.folder / "out"
    short = tiny.Run(tiny.ALONE, steps=9)
    newest = checkpoints.promised(case.finish(tiny.launch(short, case.settings.scratch, output)))
    references.known[(whole.layout, whole.steps, whole.lr, whole.optimizer, whole.more)] = {
        step: (str(1 / step), "1.5", "0.001") for step in range(1, kills.STEPS + 1)
    }
    job = case.start(tiny.launch(whole, case.settings.scratch, output))
    job.wait(limit)
    kills.check_finished(case, job, whole, output, newest, references)


def taken_damage(case, original):
    """The fake program does not look at this file."""
    output = case.folder / "out"
    original.copy_to(case, output)
    (output / "global_step12" / "other").write_text("damaged")
    damage.check_older(case, damage.resume(case, output), "a file", ["other"])


class Counting(Scratch):
    """How outcomes become numbers."""

    def test_a_case_that_cannot_be_made_is_counted_and_no_violation(self):
        def skip(case):
            raise suite.Skipped("no disks here")

        code, text = self.outcome(skip)
        self.assertEqual(code, 0)
        self.assertIn("skipped 1: no disks here", text)

    def test_a_defect_of_the_harness_is_red(self):
        def fall(case):
            raise KeyError("x")

        code, text = self.outcome(fall)
        self.assertEqual(code, 1)
        self.assertIn("the harness failed", text)

    def test_a_name_that_no_case_has_is_red(self):
        family = self.family(only="nothing")
        with contextlib.redirect_stdout(io.StringIO()):
            family.case("row/0", lambda case: None)
            self.assertEqual(family.finish(), 1)

    def test_what_a_case_draws_follows_from_seed_and_name(self):
        def draws(seed, name):
            settings = suite.Settings(self.folder, self.folder / f"{seed}{name}", seed=seed)
            return suite.Case(settings, "self", name).rng.random()

        self.assertNotEqual(draws(1, "a/0"), draws(1, "a/1"))
        self.assertNotEqual(draws(2, "a/0"), draws(3, "a/0"))
        shutil.rmtree(self.folder / "1a")
        again = random.Random("1/self/a/0").random()
        self.assertEqual(draws(1, "a/0"), again)

    def test_mutations_repeat_and_change(self):
        value = tiny.deepspeed(tiny.Run(tiny.ALONE))
        one = [mutations.change_json(random.Random(at), value) for at in range(200)]
        two = [mutations.change_json(random.Random(at), value) for at in range(200)]
        self.assertEqual(one, two)
        self.assertGreater(len(set(one)), 150)


class Registration(unittest.TestCase):
    """What is there is run."""

    def test_every_family_is_in_the_build_and_in_the_readme(self):
        words = (HERE / "CMakeLists.txt").read_text().replace(")", " ").split()
        text = (HERE / "README.md").read_text()
        for family in run.FAMILIES:
            self.assertIn(family, words)
            self.assertIn(f"| `{family}` |", text)


class Leavings(Scratch):
    """What a family began is gone with it, whatever ended it."""

    def start(self):
        """A family whose job never ends."""
        self.program.write_text(f"#!/bin/sh\necho $$ > {self.folder}/pid\nexec sleep 1000\n")
        words = [sys.executable, "-B", HERE / "run.py", "storage", "--build", self.folder / "build"]
        environment = {**os.environ, "TMPDIR": str(self.folder)}
        family = subprocess.Popen(
            list(map(str, words)), env=environment, stdout=subprocess.DEVNULL
        )
        self.addCleanup(family.kill)
        self.assertTrue(jobs.eventually(jobs.PATIENCE_S, (self.folder / "pid").exists))
        (scratch,) = self.folder.glob("fm_faults_*")
        return family, str(scratch)

    def check_nothing_is_left(self, scratch):
        gone = jobs.eventually(
            jobs.PATIENCE_S, lambda: not isolation.processes_with(isolation.MARK, scratch)
        )
        self.assertTrue(gone, "processes are left")
        self.assertNotIn(scratch, pathlib.Path("/proc/mounts").read_text())

    def test_after_a_term(self):
        family, scratch = self.start()
        family.send_signal(signal.SIGTERM)
        self.assertEqual(family.wait(jobs.PATIENCE_S), 128 + signal.SIGTERM)
        self.check_nothing_is_left(scratch)
        self.assertFalse(os.path.exists(scratch))

    def test_after_a_kill(self):
        family, scratch = self.start()
        family.kill()
        family.wait()
        if isolation.level() == "none":
            self.skipTest("a kill needs namespaces to clear up")
        self.check_nothing_is_left(scratch)


class Manifests(unittest.TestCase):
    """What the published schemas would refuse."""

    def problems(self, **trainer):
        """Of a small TrainJob with these values in its trainer."""
        document = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "a"},
            "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "b"}, "trainer": trainer},
        }
        return manifests.problems(document, json.loads(manifests.TABLE.read_text()))

    def test_a_good_one_passes(self):
        self.assertEqual(self.problems(numNodes=2, command=["a"]), [])

    def test_a_misspelt_key_is_found(self):
        self.assertEqual(self.problems(numnodes=2), ["/spec/trainer/numnodes: unknown"])

    def test_a_wrong_type_is_found(self):
        self.assertIn("integer is expected, found '2'", self.problems(numNodes="2")[0])
        self.assertIn("integer is expected, found True", self.problems(numNodes=True)[0])

    def test_a_missing_key_is_found(self):
        self.assertEqual(self.problems(env=[{}]), ["/spec/trainer/env[]: lacks name"])

    def test_an_unknown_value_is_found(self):
        table = {"v K": {"": {"type": "object"}, "/apiVersion": {"type": "string"},
                         "/kind": {"type": "string"}, "/a": {"type": "string", "enum": ["b"]}}}
        found = manifests.problems({"apiVersion": "v", "kind": "K", "a": "c"}, table)
        self.assertEqual(found, ["/a: one of ['b'] is expected, found 'c'"])


class Ports(unittest.TestCase):
    """Strangers and what they visit."""

    def test_ports_of_a_process_are_found_and_visited(self):
        listener = sockets.Listener(b"x")
        self.addCleanup(listener.close)
        self.assertIn(listener.port, sockets.listening([os.getpid()]))
        strangers = sockets.Strangers(random.Random(1))
        self.addCleanup(strangers.close)
        self.assertEqual(strangers.visit(listener.port, "one byte"), 1)
        with socket.create_connection(("127.0.0.1", listener.port)) as connection:
            self.assertEqual(connection.recv(1), b"x")
        self.assertTrue(jobs.eventually(jobs.PATIENCE_S, lambda: len(listener.taken) == 2))


if __name__ == "__main__":
    unittest.main()
