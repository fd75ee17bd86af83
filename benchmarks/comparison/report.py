"""The report of a campaign: Markdown, its plot, and the raw runs as JSON."""

import os

from comparison import machine, pairs, peers, plot, store

QUIET = (0.97, 1.03)
SMALL_CLAIM = 1.2
MANY_PAIRS = 15
FEW_PAIRS = 7
MIN_SIDE_S = 3.0


def table(header, rows):
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in lines)


def mib(count):
    """Bytes as whole MiB."""
    return f"{count / 2**20:,.0f}"


def interval(summary):
    """1.800 [1.750, 1.861]"""
    if summary["ratio"] is None:
        return "no quiet pair"
    return f"{summary['ratio']:.3f} [{summary['low']:.3f}, {summary['high']:.3f}]"


def rate(flops, step_ms, peak):
    """GFLOP/s over all ranks and the part of the cores' measured peak."""
    gflops = flops / step_ms / 1e6
    return f"{gflops:.0f} ({100 * gflops / peak:.0f} %)"


def pss_ratio(comparison, done):
    """Peer's peak PSS over ours, out of the screen."""
    ours = done["ours"][comparison["zero"]]["memory"]["pss_peak"]
    theirs = done["screen"][comparison["peer"]]["record"]["memory"]["pss_peak"]
    return f"{theirs / ours:.2f}" if ours and theirs else "-"


def speed_row(comparison, done):
    """One line of the table of speeds."""
    names = [f"ZeRO-{comparison['zero']}", peers.title(comparison["peer"])]
    if comparison.get("refused"):
        return [*names, f"no speed: {comparison['refused']}", *[""] * 6]
    summary = comparison["summary"]
    counts = f"{summary['used']} / {summary['dropped']}"
    if summary["ratio"] is None:
        return [*names, "", "", "no quiet pair", counts, "", "", pss_ratio(comparison, done)]
    flops = done["ours"][comparison["zero"]]["flops_per_step"]
    peak = summary["fma_gflops"]
    return [
        *names,
        f"{summary['ours_ms']:.1f}",
        f"{summary['theirs_ms']:.1f}",
        f"**{interval(summary)}**",
        counts,
        rate(flops, summary["ours_ms"], peak),
        rate(flops, summary["theirs_ms"], peak),
        pss_ratio(comparison, done),
    ]


def screen_row(name, entry):
    """One line of the table of single runs."""
    record = entry["record"]
    if "error" in record:
        reason = record["error"].strip().split("\n")
        return [peers.title(name), f"failed: {reason[0]} {reason[-1]}"[:120], "", "", "", ""]
    if entry.get("refused"):
        return [peers.title(name), "no speed", entry["refused"], "", "", ""]
    first, worst = entry["admitted"]
    return [peers.title(name), f"{record['steady_ms']:.1f}", f"{first:.1e}, {worst:.1e}",
            mib(record["memory"]["pss_peak"]), mib(record["memory"]["hwm_sum"]),
            record["optimizer"]]  # fmt: skip


def ours_row(zero, record, admitted):
    """Our line of the same table; no time when no peer confirms the losses."""
    time = f"{record['steady_ms']:.1f}" if admitted else "no speed"
    memory = [mib(record["memory"][name]) for name in ("pss_peak", "hwm_sum")]
    return [f"fmengine ZeRO-{zero}", time, "", *memory, ""]


def all_runs(done):
    """Every record of a workload."""
    runs = [*done["ours"].values(), *(entry["record"] for entry in done["screen"].values())]
    for group in [*done["comparisons"], done["aa"]]:
        runs += [run for pair in group.get("pairs", []) for run in pair.values()]
    return [run for run in runs if "error" not in run]


def notes(done):
    """What a reader has to know before believing a number."""
    found = []
    aa = done["aa"]["summary"]
    if aa["ratio"] is not None and not (QUIET[0] <= aa["low"] and aa["high"] <= QUIET[1]):
        found.append(f"the A/A interval leaves {QUIET[0]} to {QUIET[1]}: the machine was noisy")
    for comparison in done["comparisons"]:
        summary = comparison.get("summary", {})
        if summary.get("ratio") is None:
            continue
        if summary["used"] < FEW_PAIRS:
            found.append(
                f"{peers.title(comparison['peer'])}: {FEW_PAIRS} pairs are needed, "
                f"the interval of {summary['used']} is only their range"
            )
        if summary["low"] < SMALL_CLAIM and summary["used"] < MANY_PAIRS:
            found.append(
                f"{peers.title(comparison['peer'])}: a claim below {SMALL_CLAIM} needs "
                f"{MANY_PAIRS} pairs"
            )
        if summary["ours_ms"] * done["work"]["steps"] / 1e3 < MIN_SIDE_S:
            found.append(f"our timed steps lasted less than {MIN_SIDE_S:g} s")
    runs = all_runs(done)
    loads = sorted(run["load"][0] for run in runs)
    steal = max(run["steal"] for run in runs)
    repeated = sum(run["repeated"] for run in runs)
    found.append(
        f"load before a run {loads[0]} to {loads[-1]}, steal at most {100 * steal:.1f} %; "
        f"{repeated} runs were made again because other tenants took more of the CPUs than allowed"
    )
    return found


def workload_text(done):
    """The section of one workload."""
    work, shape = done["work"], done["shape"]
    sizes = ", ".join(f"{name} {value}" for name, value in shape.items())
    admitted = any("admitted" in entry for entry in done["screen"].values())
    speeds = table(
        ["ours", "peer", "our ms", "peer ms", "ratio [95 %]", "pairs used / dropped",
         "our GFLOP/s (% of peak)", "peer's", "PSS peer / ours"],
        [speed_row(comparison, done) for comparison in done["comparisons"]],
    )  # fmt: skip
    screen = table(
        ["one run each", "ms", "losses differ by (first, worst)", "PSS MiB", "VmHWM MiB",
         "optimizer"],
        [
            *(ours_row(zero, record, admitted) for zero, record in done["ours"].items()),
            *(screen_row(name, entry) for name, entry in done["screen"].items()),
        ],
    )  # fmt: skip
    aa = done["aa"]["summary"]
    lines = [
        f"## {work['workload']}",
        f"{sizes}; {work['ranks']} ranks x 1 thread, {work['warmup']} + {work['steps']} steps.",
        speeds,
        f"A/A (ours against ours): {interval(aa)}, {aa['used']} pairs used, "
        f"{aa['dropped']} dropped.",
        screen,
        "\n".join(f"- {note}" for note in dict.fromkeys(notes(done))),
    ]
    return "\n\n".join(lines)


def versions_of(result):
    """{"torch": "2.11.0", ...} over all peers that ran."""
    found = {}
    for done in result["workloads"]:
        for run in all_runs(done):
            found.update(run.get("versions", {}))
    return found


def head_text(result):
    """Where, with what and how the numbers were made."""
    at, build = result["machine"], result["engine"]
    probes = [run["probe"] for done in result["workloads"] for run in all_runs(done)]
    peak = sorted(pairs.total_rate(probe, "fma_gflops") for probe in probes)
    read = sorted(pairs.total_rate(probe, "read_gb_s") for probe in probes)
    versions = ", ".join(f"{name} {value}" for name, value in versions_of(result).items())
    changed = " with uncommitted changes" if build["changed"] else ""
    rows = [
        ["CPU", f"{at['cpu']} ({at['family_model_stepping']}), {at['cores']} cores, "
                f"{at['memory_gib']} GiB, kernel {at['kernel']}"],
        ["vector instructions", ", ".join(at["vector"])],
        ["probe, all ranks' cores", f"{probes[0][0]['simd']}: FMA {peak[0]:.0f} to "
                                    f"{peak[-1]:.0f} GFLOP/s, read {read[0]:.1f} to "
                                    f"{read[-1]:.1f} GB/s"],
        ["fmengine", f"{result['version']}, commit {build['commit']}{changed}, "
                     f"{at['mpirun']}"],
        ["peers", versions + (", tuned beyond their manuals" if result["tuned"] else "")],
        ["command", f"`{result['command']}`"],
    ]  # fmt: skip
    return table(["", ""], rows)


def example_commands(result):
    """How each side was started, once."""
    found = {}
    for done in result["workloads"]:
        for run in all_runs(done):
            found.setdefault(run["command"].split()[0], run["command"])
    return "```\n" + "\n".join(found.values()) + "\n```"


def bars_of(result):
    """What the plot shows."""
    return [
        {"label": f"{done['work']['workload']}  ZeRO-{comparison['zero']} vs "
                  f"{peers.title(comparison['peer'])}", **comparison["summary"]}
        for done in result["workloads"]
        for comparison in done["comparisons"]
        if comparison.get("summary", {}).get("ratio") is not None
    ]  # fmt: skip


def markdown(result, plot_name):
    """The whole report."""
    kept = "kept" if result["keep_noisy"] else "dropped"
    lines = [
        f"# Peers on the same work, {result['date']}",
        head_text(result),
        f"![ratios]({plot_name})" if bars_of(result) else "No ratio was admitted.",
        "Ratio: the peer's step time over ours, the median over pairs of runs made one after the "
        "other (order ABBA), with a bootstrap 95 % interval. A run's step time is the median "
        f"after its warm-up. Pairs whose probes differ by more than 5 % were {kept}. Both sides "
        "start from the same weights, read the same tokens and use the same optimizer; a peer "
        "is shown only if its losses agree with ours over 50 steps (first step 1e-6, worst "
        "2e-5). GFLOP/s is over all ranks, its percentage that of the FMA peak which the probe "
        "saw on the same cores just before. PSS: the largest sum over the ranks, sampled every "
        "0.25 s in the single runs; those are not timed against each other.",
        *(workload_text(done) for done in result["workloads"]),
        "## Commands",
        example_commands(result),
    ]
    return "\n\n".join(lines) + "\n"


def write(result, folder):
    """Writes NAME.md, NAME.svg and NAME.json; returns the path of the first."""
    os.makedirs(folder, exist_ok=True)
    tuned = "-tuned" if result["tuned"] else ""
    name = f"{result['date']}-{machine.short_name(result['machine'])}{tuned}"
    bars = bars_of(result)
    if bars:
        title = f"fmengine and its peers, {result['machine']['cpu']}, {result['date']}"
        with open(f"{folder}/{name}.svg", "w") as file:
            file.write(plot.draw(title, bars))
    with open(f"{folder}/{name}.md", "w") as file:
        file.write(markdown(result, f"{name}.svg"))
    store.write_json(f"{folder}/{name}.json", result, indent=None)
    return f"{folder}/{name}.md"
