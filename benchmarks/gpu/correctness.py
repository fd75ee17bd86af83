"""Parts of a device run that compare numbers: with fp64, with this CPU, with itself, with others."""
import json
import os
import shutil
import sys

import runs
import workload

TOLERANCES = {"fp32": 1e-4, "bf16": 2e-2}
NORM_TOLERANCES = {"fp32": 1e-3, "bf16": 1e-2}  # wrong attention moves them by 3 % and more
FOUND = 9  # a sanitizer's exit code where it has found something


def only_refused(details):
    """Whether a test of cuDNN failed since it makes no plan, rather than by wrong numbers."""
    out = details.get("out", "")
    return 0 < out.count(": Failure") == out.count("Value of: done")


def failed_tests(details):
    """Names, without their parameters, in order."""
    lines = details.get("out", "").splitlines()
    names = [line.split("]", 1)[1].split(" (")[0].split(",")[0].strip() for line in lines
             if line.startswith("[  FAILED  ]") and "." in line]
    return list(dict.fromkeys(names))


def kernels(session, apart):
    """One process for all kernels. A fault of one makes every later one fail: what fails first is
    left out then, and the others run again."""
    left_out = []
    for _ in range(3):
        name = "kernels against fp64" + (f", without {len(left_out)}" if left_out else "")
        words = [session.program("cuda_device_test"), "--gtest_brief=1",
                 f"--gtest_filter=-{':'.join([*apart, *left_out])}"]
        said = session.call(name, words, 90)
        if said is not None:
            session.row(name, "passed", said.strip().splitlines()[-1][:80])
            return
        failed = failed_tests(session.details.get(name, {}))
        for test in failed[:8]:
            session.row(f"{name}: failed test", test)
        if len(failed) < 4:  # each by itself
            return
        left_out.append(failed[0])


def tests(session):
    apart = {"products": "ProductsOnCard*", "cuDNN's attention": "CudnnOnCard*",
             "NCCL with one rank": "NcclOnCard*"}
    kernels(session, apart.values())
    for name, chosen in apart.items():
        name = f"{name} against fp64"
        said = session.call(name, [session.program("cuda_device_test"), "--gtest_brief=1",
                                   f"--gtest_filter={chosen}"], 90)
        details = session.details.get(name, {})
        if said is not None:
            session.row(name, "passed", said.strip().splitlines()[-1][:80])
        elif chosen.startswith("Cudnn") and only_refused(details):
            session.row(name, "refused", "the library takes no such shape; ours attends there")
        elif chosen.startswith("Cudnn"):
            os.environ["FME_ATTENTION"] = "own"
            session.row("what follows", "FME_ATTENTION=own", "since cuDNN failed")
        for test in failed_tests(details) if said is None else ():
            session.row(f"{name}: failed test", test)


def tell_gaps(session, name, lines, others, element):
    """Losses of a small model hardly know what attention does, norms do."""
    for key, tolerance in (("loss", TOLERANCES[element]), ("grad_norm", NORM_TOLERANCES[element])):
        gap = runs.worst_gap(lines, others, key)
        session.row(f"30 steps {element}, {key}, worst gap to {name}", f"{gap:.2e}",
                    "good" if gap <= tolerance else f"MORE THAN {tolerance}")


def losses(session):
    """30 steps of a small model: the CPU, the card, the card again, our own attention."""
    for element in TOLERANCES:
        folder = workload.written(session.work, "tiny", element)
        cpu = session.train(f"tiny cpu {element}", folder, 30, 60, device="cpu")
        gpu = session.train(f"tiny gpu {element}", folder, 30, 60)
        if not (cpu and gpu):
            continue
        tell_gaps(session, "CPU", cpu, gpu, element)
        again = session.train(f"tiny again {element}", folder, 30, 60)
        if again:
            same = runs.results(gpu) == runs.results(again)
            session.row(f"30 steps {element}, twice", "same bits" if same else "DIFFERENT")
        if element == "fp32":
            continue
        own = session.train("tiny own attention", folder, 30, 60,
                            variables={"FME_ATTENTION": "own"})
        if own:
            tell_gaps(session, "own attention", own, gpu, element)
            if runs.results(own) == runs.results(gpu):
                session.row("30 steps bf16, own attention", "THE SAME KERNELS")


def layouts(session):
    """ZeRO 0 to 3 and a pipeline on two ranks that share the card, in canonical order, against one
    rank."""
    more = {"communication_order": "canonical"}
    folder = workload.written(session.work, "tiny", "bf16", more=more, suffix="-one")
    one = session.train("tiny one rank", folder, 6, 60)
    failures = 0
    for name, stage, flags in (*((f"ZeRO {stage}", stage, ()) for stage in range(4)),
                               ("a pipeline", 1, ("--pipe_parallel_size", 2))):
        zero = {"stage": stage}
        parts = {"gradient_accumulation_steps": 1} if not flags else {}
        folder = workload.written(session.work, "tiny", "bf16", zero, {**more, **parts},
                                  suffix=f"-{name}")
        if not one or failures == 2:  # the others would, too, and last long
            return
        two = session.train(f"tiny two ranks {name}", folder, 6, 90, ranks=2, more=flags)
        failures += not two
        if two:
            same = runs.results(one) == runs.results(two)
            session.row(f"{name} on 2 ranks, one card",
                        "bits of one rank" if same else "DIFFERENT")


def transformers(session):
    """30 steps from the same weights as transformers on the same card."""
    folder = workload.written(session.work, "tiny", "bf16", suffix="-peer")
    said = session.call("tiny transformers", [sys.executable, session.bundle / "peer.py", "tiny",
                                              "eager", 30, folder, folder / "hf"], 120)
    ours = None if said is None else session.train(
        "tiny from its weights", folder, 30, 60, more=("--init_ckpt", folder / "hf"))
    if not ours:
        return
    peer = json.loads(said.strip().splitlines()[-1])
    steps = [{"loss": loss, "grad_norm": norm} for loss, norm in zip(peer["losses"], peer["norms"])]
    tell_gaps(session, "transformers", ours, steps, "bf16")


def sanitizer(session):
    """NVIDIA's checkers of memory and of races in shared memory, on a step of a small model: of our
    kernels alone, NVIDIA's would take minutes."""
    program = shutil.which("compute-sanitizer",
                           path=os.environ["PATH"] + ":/usr/local/cuda/bin")
    if program is None:
        session.row("compute-sanitizer", "not here")
        return
    parts = {"gradient_accumulation_steps": 1}
    folder = workload.written(session.work, "tiny", "bf16", more=parts, suffix="-checked")
    usage = session.call("compute-sanitizer usage", [program, "--help"], 20) or ""
    named = "--kernel-name" if "--kernel-name" in usage else "--kernel-regex"  # as it was called
    options = [word for option, word in (("--report-api-errors", "no"),
                                         (named, "kns=fm7kernels"), ("--print-limit", 20))
               if option in usage for word in (option, word)]
    words = [program, "--tool", "memcheck", "--error-exitcode", FOUND, *options,
             session.program("cuda_device_test"), "--gtest_also_run_disabled_tests",
             "--gtest_filter=Planted.*"]
    if session.call("compute-sanitizer, planted fault", words, 60, right=FOUND) is None:
        return  # it does not look at our kernels, and would call everything clean
    session.row("compute-sanitizer, planted fault", "seen")
    for tool in ("memcheck", "racecheck"):
        before = (program, "--tool", tool, "--error-exitcode", FOUND, *options)
        lines = session.train(f"compute-sanitizer {tool}", folder, 1, 90, before=before,
                              variables={"FME_ATTENTION": "own"})
        if lines:
            session.row(f"compute-sanitizer {tool}", "clean")
