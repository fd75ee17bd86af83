"""The order of runs: inputs, the screen of every peer, then pairs; everything is resumable."""

import datetime
import os
import shutil
import time

from comparison import engine, machine, pairs, peers, processes, store

# (warm-up, timed steps): at least 3 s of timed steps on either side.
STEPS = {"W1": (10, 150), "W5": (1, 4), "W6": (1, 4), "W7": (1, 4)}
OTHER_STEPS = (3, 12)
OURS = "ours"
# No more than this many pairs per wanted pair: a noisy machine must come to an end.
TRIES = 2
# A run is made again, this often in all, while the host takes more of its CPUs than allowed.
STOLEN_TRIES = 5
# Before a run the probe looks whether the CPUs are ours, this often, with pauses of so many seconds.
CALM_LOOKS = 15
CALM_PAUSE_S = 20


def say(text):
    """One line of progress."""
    now = datetime.datetime.now(datetime.timezone.utc)
    print(f"{now:%H:%M:%S} {text}", flush=True)


def work_of(workload, ranks, steps=None):
    """What both sides do."""
    warmup, timed = STEPS.get(workload, OTHER_STEPS)
    return {"workload": workload, "ranks": ranks, "warmup": warmup, "steps": steps or timed}


class Campaign:
    """Runs single sides and keeps their records.

    What machine this is belongs to every key, so that results of two machines never mix.
    """

    def __init__(self, options, here):
        self.options = options
        self.machine = here
        self.engine = engine.Engine(options.engine)
        self.peers = peers.Peers(options.peers, options.python)
        self.probe = options.probe or self.engine.default_probe()
        self.folder = os.path.abspath(options.work)
        self.store = store.Store(f"{self.folder}/runs")
        self.scratch = f"{self.folder}/scratch"
        os.makedirs(self.scratch, exist_ok=True)
        self.preload = self.make_preload() if options.tuned else ""

    def make_preload(self):
        """LD_PRELOAD of the hand-tuned peers."""
        tcmalloc = self.options.tcmalloc or peers.find_tcmalloc()
        return ":".join([*self.peers.build_shims(f"{self.folder}/shim"), tcmalloc])

    def input_paths(self, work):
        """Tokens and initial weights of a workload, made once."""
        needed = self.peers.tokens_needed(work)
        made_by = store.digest([self.peers.identity(), needed])
        folder = f"{self.folder}/inputs/{work['workload']}-{made_by}"
        paths = {"tokens": f"{folder}/tokens.bin", "weights": f"{folder}/init"}
        if not os.path.exists(f"{folder}/ready"):
            say(f"{work['workload']}: making tokens and initial weights")
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            self.make_inputs(work, folder, paths)
            open(f"{folder}/ready", "w").close()
        return paths

    def make_inputs(self, work, folder, paths):
        """Both scripts of the peers, one after the other."""
        env = self.peers.environment()
        commands = [
            (self.peers.tokens_command(work, paths["tokens"]), None),
            (
                self.peers.weights_command(work, paths["tokens"], paths["weights"]),
                f"{paths['weights']}.json",
            ),
        ]
        for command, done_file in commands:
            with processes.held(self.options.lock):
                processes.run(
                    command, env, f"{folder}/log", done_file, timeout_s=self.options.timeout
                )

    def key(self, work, side, zero, role):
        """Everything that a result depends on."""
        return {
            **work,
            "side": side,
            "zero": zero,
            "role": role,
            "tuned": self.options.tuned,
            "preload": self.preload if side != OURS else "",
            "engine": self.engine.identity,
            "peers": self.peers.identity(),
            "machine": self.machine,
        }

    def start_ours(self, work, zero, scratch, settings):
        """Runs our side; returns (how it ended, its result, its command)."""
        paths = {**self.input_paths(work), "config": f"{scratch}.ds.json", "output": scratch}
        shape = self.peers.shape(work["workload"])
        config = peers.engine_config(shape, self.peers.hyper, work["ranks"], zero)
        store.write_json(paths["config"], config)
        shutil.rmtree(scratch, ignore_errors=True)
        command = self.engine.command(work, shape, paths)
        ending = processes.run(command, self.engine.environment(), f"{scratch}.log", **settings)
        return ending, self.engine.read(scratch), command

    def start_peer(self, work, side, scratch, settings):
        """Runs a peer; returns (how it ended, its result, its command)."""
        out = f"{scratch}.json"
        if os.path.exists(out):
            os.remove(out)
        command = self.peers.command(side, work, self.input_paths(work)["tokens"], out)
        env = self.peers.environment(self.preload)
        ending = processes.run(command, env, f"{scratch}.log", done_file=out, **settings)
        with open(out) as file:
            return ending, peers.parse_result(file.read()), command

    def execute(self, key, work, sampler):
        """One run with the probe before it, as a record."""
        side, zero = key["side"], key["zero"]
        scratch = f"{self.scratch}/{os.path.basename(self.store.path(key))[:-5]}"
        settings = {"timeout_s": self.options.timeout, "sampler": sampler}
        self.input_paths(work)
        with processes.held(self.options.lock):
            begin = datetime.datetime.now(datetime.timezone.utc)
            load = os.getloadavg()
            probe = processes.run_probe(self.probe, work["ranks"])
            ticks = processes.cpu_ticks()
            if side == OURS:
                ending, result, command = self.start_ours(work, zero, scratch, settings)
            else:
                ending, result, command = self.start_peer(work, side, scratch, settings)
            steal = processes.stolen_fraction(ticks, processes.cpu_ticks())
        return {
            "started": begin.isoformat(timespec="seconds"),
            "ending": ending,
            "command": self.shown(" ".join(command)),
            "probe": probe,
            "steal": round(steal, 5),
            "load": [round(x, 2) for x in load],
            "memory": sampler.result() if sampler else None,
            "steady_ms": pairs.steady(result["step_ms"], work["warmup"]),
            **result,
        }

    def wait_for_calm(self, work):
        """Leaves the machine alone while other tenants have it, but only for a while."""
        for look in range(CALM_LOOKS):
            if look > 0:
                time.sleep(CALM_PAUSE_S)
            with processes.held(self.options.lock):
                ticks = processes.cpu_ticks()
                processes.run_probe(self.probe, work["ranks"])
                if processes.stolen_fraction(ticks, processes.cpu_ticks()) <= self.options.max_steal:
                    return

    def execute_calmly(self, key, work, sampler):
        """The first run that kept its CPUs, else the one that kept most of them.

        What decides is what the host took, never how long the run was.
        """
        records = []
        for _ in range(STOLEN_TRIES):
            self.wait_for_calm(work)
            records.append(self.execute(key, work, sampler))
            if records[-1]["steal"] <= self.options.max_steal:
                break
            taken = f"{100 * records[-1]['steal']:.0f} % of its CPUs were stolen"
            say(f"{work['workload']} {key['role']} {key['side']}: {taken}")
        best = min(records, key=lambda record: record["steal"])
        stolen = best["steal"] > self.options.max_steal
        return {**best, "repeated": len(records) - 1, "stolen": stolen}

    def shown(self, text):
        """The text with names instead of this machine's folders."""
        places = {
            self.folder: "WORK",
            self.engine.program: "fmengine-train",
            self.peers.folder: "PEERS",
            os.path.dirname(os.path.dirname(self.peers.python)): "VENV",
            os.path.expanduser("~"): "HOME",
        }
        return machine.without_places(text, places)

    def run_side(self, work, side, zero, role):
        """The record of one run, from the store when it is there; RunFailed is kept as an error.

        Memory is sampled in the screen only: reading smaps_rollup takes time from the ranks.
        """
        key = self.key(work, side, zero, role)
        record = self.store.load(key)
        if record is not None and not ("error" in record and self.options.retry):
            return record
        sampler = processes.MemorySampler() if role == "screen" else None
        try:
            record = self.execute_calmly(key, work, sampler)
        except (processes.RunFailed, ValueError) as problem:
            record = {"error": self.shown(str(problem))}
        self.store.save(key, record)
        # No time yet: whether the losses agree is not known.
        what = record.get("error", "done").strip().split("\n")[-1]
        say(f"{work['workload']} {role} {side}{'' if zero is None else f' zero {zero}'}: {what}")
        return record

    def forget_half(self, work, halves, role):
        """The halves of a pair must be neighbours in time: one alone is run again."""
        keys = [self.key(work, side, zero, role_of(role, half)) for half, side, zero in halves]
        records = [self.store.load(key) for key in keys]
        if any(record is None or "error" in record for record in records):
            for key in keys:
                self.store.forget(key)

    def run_pair(self, work, sides, role, index):
        """One pair {"ours": record, "theirs": record}; `sides` maps both to (side, zero)."""
        order = [(half, *sides[half]) for half in pairs.order_of(index)]
        role = f"{role}{index}"
        self.forget_half(work, order, role)
        pair = {
            half: self.run_side(work, side, zero, role_of(role, half)) for half, side, zero in order
        }
        for half, side, _ in order:
            if "error" in pair[half]:
                raise processes.RunFailed(f"{side} failed in a pair: {pair[half]['error']}")
        pairs.check_losses(pair["ours"]["losses"], pair["theirs"]["losses"])
        return pair

    def run_pairs(self, work, sides, role, wanted):
        """Pairs until `wanted` of them are quiet, but at most twice as many."""
        done = []
        for index in range(TRIES * wanted):
            done.append(self.run_pair(work, sides, role, index))
            used, dropped = pairs.select(done, self.options.keep_noisy)
            say(f"{work['workload']} {role}: {len(used)} pairs used, {len(dropped)} dropped")
            if len(used) == wanted:
                break
        return done


def role_of(role, half):
    """Both halves of an A/A pair run the same work: the half tells them apart."""
    return f"{role}-{half}"
