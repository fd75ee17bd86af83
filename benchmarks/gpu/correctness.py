"""Parts of a device run that compare numbers: with fp64, with this CPU, with itself, with others."""
import json
import os
import shutil
import sys

import runs
import workload

TOLERANCES = {"fp32": 1e-4, "bf16": 2e-2}
FOUND = 9  # a sanitizer's exit code where it has found something


def only_refused(details):
    """Whether a test of cuDNN failed since it makes no plan, rather than by wrong numbers."""
    out = details.get("out", "")
    return 0 < out.count(": Failure") == out.count("Value of: done")


def tests(session):
    apart = {"products": "ProductsOnCard*", "cuDNN's attention": "CudnnOnCard*",
             "NCCL with one rank": "NcclOnCard*"}
    for name, chosen in {"kernels": "-" + ":".join(apart.values()), **apart}.items():
        name = f"{name} against fp64"
        said = session.call(name, [session.program("cuda_device_test"), "--gtest_brief=1",
                                   f"--gtest_filter={chosen}"], 90)
        if said is not None:
            session.row(name, "passed", said.strip().splitlines()[-1][:80])
        elif chosen.startswith("Cudnn") and only_refused(session.details.get(name, {})):
            session.row(name, "refused", "the library takes no such shape; ours attends there")
        elif chosen.startswith("Cudnn"):
            os.environ["FME_ATTENTION"] = "own"
            session.row("what follows", "FME_ATTENTION=own", "since cuDNN failed")
        for line in session.details.get(name, {}).get("out", "").splitlines():
            if said is None and line.startswith("[  FAILED  ]"):
                session.row(f"{name}: failed test", line[13:].split(" (")[0])


def losses(session):
    """30 steps of a small model: the CPU, the card, the card again, our own attention."""
    for element, tolerance in TOLERANCES.items():
        folder = workload.written(session.work, "tiny", element)
        cpu = session.train(f"tiny cpu {element}", folder, 30, 60, device="cpu")
        gpu = session.train(f"tiny gpu {element}", folder, 30, 60)
        again = session.train(f"tiny again {element}", folder, 30, 60)
        if not (cpu and gpu and again):
            continue
        gap = runs.worst_gap(cpu, gpu)
        session.row(f"30 steps {element}, worst gap to CPU", f"{gap:.2e}",
                    "good" if gap <= tolerance else f"MORE THAN {tolerance}")
        same = runs.results(gpu) == runs.results(again)
        session.row(f"30 steps {element}, twice", "same bits" if same else "DIFFERENT")
        if element == "fp32":
            continue
        own = session.train("tiny own attention", folder, 30, 60,
                            variables={"FME_ATTENTION": "own"})
        if own:
            gap = runs.worst_gap(own, gpu)
            session.row("30 steps bf16, cuDNN and own attention", f"{gap:.2e}",
                        "good" if 0 < gap <= tolerance else
                        "THE SAME KERNELS" if gap == 0 else "TOO FAR")


def layouts(session):
    """ZeRO 0 to 3 and a pipeline on two ranks that share the card, in canonical order, against one
    rank."""
    more = {"communication_order": "canonical"}
    folder = workload.written(session.work, "tiny", "bf16", more=more, suffix="-one")
    one = session.train("tiny one rank", folder, 6, 60)
    if not one:
        return
    for name, stage, flags in (*((f"ZeRO {stage}", stage, ()) for stage in range(4)),
                               ("a pipeline", 1, ("--pipe_parallel_size", 2))):
        zero = {"stage": stage}
        parts = {"gradient_accumulation_steps": 1} if not flags else {}
        folder = workload.written(session.work, "tiny", "bf16", zero, {**more, **parts},
                                  suffix=f"-{name}")
        two = session.train(f"tiny two ranks {name}", folder, 6, 90, ranks=2, more=flags)
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
    gap = runs.worst_gap(ours, [{"loss": loss} for loss in peer["losses"]])
    session.row("30 steps bf16, worst gap to transformers", f"{gap:.2e}",
                "good" if gap <= TOLERANCES["bf16"] else f"MORE THAN {TOLERANCES['bf16']}")


def sanitizer(session):
    """NVIDIA's checkers of memory and of races in shared memory, on a step of a small model: of our
    kernels alone, NVIDIA's would take minutes."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        session.row("compute-sanitizer", "not here")
        return
    parts = {"gradient_accumulation_steps": 1}
    folder = workload.written(session.work, "tiny", "bf16", more=parts, suffix="-checked")
    usage = session.call("compute-sanitizer usage", [program, "--help"], 20) or ""
    kernels = "--kernel-name" if "--kernel-name" in usage else "--kernel-regex"  # as it was called
    options = [word for option, word in (("--report-api-errors", "no"),
                                         (kernels, "kns=fm7kernels"))
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
