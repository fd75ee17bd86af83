"""The comparisons themselves: each must fail on a deliberately wrong value."""

import dataclasses
import json
import os
import shutil
import tempfile
import unittest

import safetensors.torch
import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import cases
import compare
import generate_parity
import parity_test
import tiny_llama
import train_reference


def write_lines(folder, name, lines):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


class Comparisons(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_pair(self, got, want, got_norms=None):
        path = self.folder.name
        norms = got_norms or [1.0] * len(got)
        got_lines = [
            {"step": i + 1, "loss": x, "grad_norm": norm}
            for i, (x, norm) in enumerate(zip(got, norms, strict=True))
        ]
        want_lines = [{"loss": x, "grad_norm": 1.0} for x in want]
        compare.compare_run(
            write_lines(path, "got", got_lines), write_lines(path, "want", want_lines)
        )

    def test_small_differences_pass(self):
        self.run_pair([7.0, 6.0001], [7.000001, 6.0])

    def test_first_loss_is_strict(self):
        with self.assertRaises(compare.Mismatch):
            self.run_pair([7.00002, 6.0], [7.0, 6.0])

    def test_bf16_allows_more_and_not_everything(self):
        near, far = [7.0006, 6.002, 5.0], [7.0006, 6.004, 5.0]
        norms = [1.05, 1.004, 1.0]
        lines = [
            [{"step": i + 1, "loss": x, "grad_norm": norms[i]} for i, x in enumerate(losses)]
            for losses in (near, far)
        ]
        want = write_lines(
            self.folder.name, "want", [{"loss": x, "grad_norm": 1.0} for x in (7.0, 6.0, 5.0)]
        )
        near, far = (
            write_lines(self.folder.name, name, part) for name, part in zip(("near", "far"), lines)
        )
        compare.compare_run(near, want, compare.BF16)
        with self.assertRaises(compare.Mismatch):
            compare.compare_run(far, want, compare.BF16)
        with self.assertRaises(compare.Mismatch):
            compare.compare_run(near, want)

    def test_norms_count(self):
        losses = [7.0, 6.0, 5.0]
        self.run_pair(losses, losses, got_norms=[1.0, 1.0008, 1.000004])
        with self.assertRaisesRegex(compare.Mismatch, "grad_norm: worst"):
            self.run_pair(losses, losses, got_norms=[1.0, 1.0012, 1.0])
        with self.assertRaisesRegex(compare.Mismatch, "grad_norm: median"):
            self.run_pair(losses, losses, got_norms=[1.0, 1.00001, 1.00001])
        with self.assertRaisesRegex(compare.Mismatch, "grad_norm"):
            self.run_pair(losses, losses, got_norms=[1.0, float("nan"), 1.0])

    def test_every_step_counts(self):
        with self.assertRaises(compare.Mismatch):
            self.run_pair([7.0, 6.0, 5.0], [7.0, 6.0002, 5.0])

    def test_nan_fails(self):
        with self.assertRaises(compare.Mismatch):
            self.run_pair([7.0, float("nan")], [7.0, 6.0])

    def test_missing_step_fails(self):
        with self.assertRaises(compare.Mismatch):
            self.run_pair([7.0], [7.0, 6.0])

    def test_last_line_of_a_step_wins(self):
        lines = [{"step": 1, "loss": 1.0}, {"step": 1, "loss": 2.0}, {"step": 2, "eval_loss": 3.0}]
        path = write_lines(self.folder.name, "metrics", lines)
        self.assertEqual([line["loss"] for line in compare.read_metrics(path)], [2.0])

    def gradients(self, name, tensors):
        path = os.path.join(self.folder.name, name)
        safetensors.torch.save_file(tensors, path)
        return path

    def test_gradients(self):
        want = self.gradients("want", {"a": torch.tensor([1.0, -2.0])})
        near = self.gradients("near", {"a": torch.tensor([1.00001, -2.0])})
        far = self.gradients("far", {"a": torch.tensor([1.0001, -2.0])})
        nan = self.gradients("nan", {"a": torch.tensor([float("nan"), -2.0])})
        other = self.gradients("other", {"b": torch.tensor([1.0, -2.0])})
        compare.compare_gradients(near, want, want)
        for wrong in (far, nan, other):
            with self.assertRaises(compare.Mismatch):
                compare.compare_gradients(wrong, want, want)

    def test_gradients_may_be_far_from_fp64_where_transformers_is(self):
        exact = self.gradients("exact", {"a": torch.tensor([1.0, -2.0], dtype=torch.float64)})
        theirs = self.gradients("theirs", {"a": torch.tensor([1.00002, -2.0])})
        near = self.gradients("near", {"a": torch.tensor([0.9999, -2.0])})
        far = self.gradients("far", {"a": torch.tensor([0.9998, -2.0])})
        compare.compare_gradients(near, theirs, exact)
        with self.assertRaisesRegex(compare.Mismatch, "1.00e-04 from fp64 in a .allowed 9.0e-05"):
            compare.compare_gradients(far, theirs, exact)

    def test_gradients_have_the_same_shape(self):
        want = self.gradients("want", {"a": torch.ones(2, 3)})
        turned = self.gradients("turned", {"a": torch.ones(3, 2)})
        spread = self.gradients("spread", {"a": torch.ones(1, 3)})  # would broadcast
        for wrong in (turned, spread):
            with self.assertRaisesRegex(compare.Mismatch, "is not \\[2, 3\\]"):
                compare.compare_gradients(wrong, want, want)

    def test_gradients_of_zeros_compare_nothing(self):
        want = self.gradients("want", {"a": torch.ones(2), "b": torch.zeros(2)})
        with self.assertRaisesRegex(compare.Mismatch, "b: a gradient of zeros"):
            compare.compare_gradients(want, want, want)


class Fp64(unittest.TestCase):
    """A norm asks for fp32: in the reference of fp64 it does not get it."""

    def test_a_norm_stays_in_fp64(self):
        norm = LlamaRMSNorm(8, eps=1e-6).double()
        x = torch.linspace(0.1, 1.0, 8, dtype=torch.float64)
        want = x / (x.square().mean() + 1e-6).sqrt()
        self.assertGreater((norm(x) - want).abs().max().item(), 1e-9)
        with train_reference.InFp64():
            self.assertLess((norm(x) - want).abs().max().item(), 1e-15)


class References(unittest.TestCase):
    """A reference run is shared for as long as nothing that it was made of changes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sources = os.path.join(folder.name, "oracle")
        shutil.copytree(parity_test.SOURCES, self.sources)

    def name(self, case="odd_zero3"):
        return parity_test.reference_name(cases.CASES[case], self.sources)

    def test_layouts_of_one_key_share_it(self):
        self.assertEqual(self.name("w1_zero0"), self.name("w1_zero3"))
        self.assertNotEqual(self.name("w1_zero0"), self.name("odd_zero3"))

    def test_it_does_not_depend_on_where_the_sources_are(self):
        here = parity_test.reference_name(cases.CASES["odd_zero3"], parity_test.SOURCES)
        self.assertEqual(self.name(), here)

    def test_every_source_and_the_requirements_count(self):
        for file in ("cases.py", "tiny_llama.py", "train_reference.py", "requirements.txt"):
            before = self.name()
            with open(os.path.join(self.sources, file), "a") as source:
                source.write("# changed\n")
            self.assertNotEqual(self.name(), before, file)


class Greedy(unittest.TestCase):
    """Ids that are not the reference's are right only where two are as likely."""

    def setUp(self):
        torch.manual_seed(1)
        config = tiny_llama.config_of(dataclasses.replace(cases.ODD, layers=1), 64)
        self.model = transformers.AutoModelForCausalLM.from_config(config).eval()
        self.ids = [5, 6, 7]

    def expect(self, got, expected):
        generate_parity.expect_greedy("ids", self.model, self.ids, got, len(expected), expected)

    def test_a_less_likely_id_is_found(self):
        expected = generate_parity.greedy(self.model, self.ids, 8)
        self.expect(expected, expected)
        scores = generate_parity.scores_behind(self.model, self.ids + expected[:3])
        second = scores.topk(2).indices[1].item()
        for wrong in (expected[:3] + [second] + expected[4:], expected[:5], expected + [1]):
            with self.assertRaises(SystemExit):
                self.expect(wrong, expected)

    def test_of_two_that_are_as_likely_either_may_come(self):
        first = generate_parity.greedy(self.model, self.ids, 1)[0]
        other = first + 1
        with torch.no_grad():
            self.model.lm_head.weight[other] = self.model.lm_head.weight[first]
        expected = generate_parity.greedy(self.model, self.ids, 8)
        got = [other, *generate_parity.greedy(self.model, [*self.ids, other], 7)]
        self.assertNotEqual(got, expected)
        self.expect(got, expected)
        with self.assertRaises(SystemExit):
            self.expect([other, other + 1, *got[2:]], expected)


class Tokens(unittest.TestCase):
    def test_splitmix_is_the_published_sequence(self):
        # Seed 1234567, from the sequence printed in rosettacode's "Pseudo-random numbers/Splitmix64".
        want = [6457827717110365317, 3203168211198807973, 9817491932198370423]
        self.assertEqual([int(x) for x in tiny_llama.splitmix64(1234567, 3)], want)

    def test_windows_are_consecutive_and_endless(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokens.bin")
            torch.arange(10, dtype=torch.int32).numpy().tofile(path)
            inputs, labels = tiny_llama.Windows(path, seq_len=2).batch(2, 2)
            self.assertEqual(inputs.tolist(), [[6, 7], [0, 1]])
            self.assertEqual(labels.tolist(), [[7, 8], [1, 2]])

    def test_every_case_is_registered(self):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "CMakeLists.txt")) as file:
            words = file.read().replace(")", " ").split()
        for name in cases.CASES:
            self.assertIn(name, words)


if __name__ == "__main__":
    unittest.main()
