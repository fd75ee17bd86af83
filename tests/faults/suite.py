"""Cases of a family: they are run one after another, counted, and shown in a table."""

import collections
import dataclasses
import os
import pathlib
import random
import shutil
import time
import traceback

import jobs

DEFAULT_SCALE = 30
LIMIT_S = 1800  # of a family at this scale: a watchdog, ten times what it takes


class Violation(Exception):
    """The program did what it must not do."""


class Skipped(Exception):
    """This machine cannot make the fault."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a family is started with."""

    build: pathlib.Path
    scratch: pathlib.Path
    level: str = "none"  # isolation.LEVELS
    scale: int = DEFAULT_SCALE
    seed: int = 1
    only: str = ""


def scale():
    """FAULTS: random cases of every kind are so many thousandths of what their family says."""
    return int(os.environ.get("FAULTS", str(DEFAULT_SCALE)))


def seed():
    """FAULTS_SEED: another one chooses other cases."""
    return int(os.environ.get("FAULTS_SEED", "1"))


def limit_s():
    """No family runs longer."""
    return LIMIT_S * max(1, scale() // DEFAULT_SCALE)


class Case:
    """One case: its random numbers, its folder, its jobs, what it counted."""

    def __init__(self, settings, family, name):
        self.settings = settings
        self.name = name
        self.rng = random.Random(f"{settings.seed}/{family}/{name}")
        self.folder = settings.scratch / name.replace("/", "-").replace(" ", "_")
        self.folder.mkdir(parents=True)
        self.facts = collections.Counter()
        self.jobs = []
        self.undo = []  # calls that end what the case began, last first

    def start(self, launch, tag=None):
        """A job of this case; what it writes goes to a folder of its own."""
        job = jobs.Job(self.settings, launch, self.folder / f"job{tag or len(self.jobs)}")
        self.jobs.append(job)
        return job

    def finish(self, launch):
        """Starts and waits for the end."""
        job = self.start(launch)
        job.wait()
        return job

    def count(self, fact, number=1):
        """A number for the table."""
        self.facts[fact] += number

    def expect(self, condition, text):
        """The one way to find a violation."""
        if not condition:
            raise Violation(text)

    def expect_codes(self, job, allowed, text=""):
        """Every exit code is one of `allowed`."""
        for at, code in enumerate(job.codes()):
            if code not in allowed:
                raise Violation(f"{text} exit code {code} of process {at}, expected {allowed}")

    def expect_words(self, job, *words):
        """What was written names all of this."""
        text = job.text()
        for word in words:
            self.expect(word in text, f"nothing that was written names {word!r}")

    def close(self):
        """Nothing of this case stays."""
        problems = [f"{job.folder.name} left processes" for job in self.jobs if not job.close()]
        for call in reversed(self.undo):
            try:
                call()
            except (OSError, ValueError) as error:
                problems.append(str(error))
        return problems

    def last_words(self):
        """Ends of what the last job wrote, for the report of a violation."""
        return self.jobs[-1].tail() if self.jobs else ""


class Row:
    """Numbers of the cases of one kind."""

    def __init__(self):
        self.cases = self.skipped = 0
        self.violations = []
        self.facts = collections.Counter()
        self.seconds = 0.0

    def add(self, other):
        """The sum of rows."""
        self.cases += other.cases
        self.skipped += other.skipped
        self.violations += other.violations
        self.facts.update(other.facts)
        self.seconds += other.seconds


class Suite:
    """Runs the cases of a family."""

    def __init__(self, family, settings):
        self.family = family
        self.settings = settings
        self.rows = {}
        self.reasons = collections.Counter()
        print(f"faults: {family}, FAULTS={settings.scale} FAULTS_SEED={settings.seed}", flush=True)

    def number(self, per_thousand, least=1):
        """How many random cases of a kind: `per_thousand` at FAULTS=1000."""
        return max(least, round(self.settings.scale * per_thousand / 1000))

    def repeat(self, row, per_thousand, body, *arguments, least=1):
        """Random cases of one kind."""
        for at in range(self.number(per_thousand, least)):
            self.case(f"{row}/{at}", body, *arguments)

    def case(self, name, body, *arguments):
        """Runs body(case, *arguments); the row of the table is the name up to its slash."""
        if self.settings.only not in ("", name):
            return
        row = self.rows.setdefault(name.split("/")[0], Row())
        row.cases += 1
        begin = time.monotonic()
        case = Case(self.settings, self.family, name)
        problem = self.outcome(case, body, arguments, row)
        words = case.last_words() if problem else ""
        problem = "; ".join(filter(None, [problem, *case.close()]))
        if problem:
            row.violations.append(name)
            self.say(case, problem, words)
        row.facts.update(case.facts)
        row.seconds += time.monotonic() - begin
        shutil.rmtree(case.folder, ignore_errors=True)

    def outcome(self, case, body, arguments, row):
        """"" when the case ended as expected, else why not."""
        try:
            body(case, *arguments)
        except Skipped as reason:
            row.skipped += 1
            self.reasons[str(reason)] += 1
        except (Violation, jobs.Endless) as violation:
            return str(violation)
        except Exception:
            return "the harness failed: " + traceback.format_exc()
        return ""

    def say(self, case, problem, words):
        """A violation, and how to see it again."""
        scale_and_seed = f"FAULTS={self.settings.scale} FAULTS_SEED={self.settings.seed}"
        print(f"VIOLATION {self.family} {case.name}: {problem}")
        build = self.settings.build
        again = f"tests/faults/run.py {self.family} --build {build} --case '{case.name}'"
        print(f"  again: {scale_and_seed} {again}")
        for line in words.splitlines():
            print("  | " + line)
        print(end="", flush=True)

    def finish(self):
        """Prints the table; the exit code."""
        titles = ("tried", "right", "wrong", "skipped", "s")
        print(f"{'case':44} " + " ".join(f"{title:>7}" for title in titles) + "  counted")
        total = Row()
        for name, row in self.rows.items():
            self.print_row(name, row)
            total.add(row)
        self.print_row("all", total)
        for reason, number in self.reasons.items():
            print(f"skipped {number}: {reason}")
        for name in total.violations:
            print(f"violated: {self.family} {name}")
        if not self.rows:
            print(f"no case has this name ({self.settings.only})")
        return 1 if total.violations or not self.rows else 0

    @staticmethod
    def print_row(name, row):
        """One line of the table."""
        wrong = len(row.violations)
        right = row.cases - wrong - row.skipped
        numbers = f"{row.cases:7} {right:7} {wrong:7} {row.skipped:7} {row.seconds:7.1f}"
        print(f"{name:44} {numbers}  " + ", ".join(f"{k} {v}" for k, v in row.facts.items()))
