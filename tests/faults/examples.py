"""The files of examples/, run as their users run them: what is interrupted goes on by itself and
ends with the numbers of an undisturbed run; files for what is not here agree with what is."""

import http.server
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import threading

import checkpoints
import cluster
import engines
import images
import jobs
import launchers
import manifests
import metrics
import suite
import tiny

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
STEPS = 200
RUN = tiny.Run(tiny.HAND, steps=STEPS, save_steps=2, timeout_s=2 * jobs.PATIENCE_S)
RAY_RUN = tiny.Run(tiny.HAND, steps=30, save_steps=2, timeout_s=2 * jobs.PATIENCE_S)
SHORT_RUN = tiny.Run(tiny.HAND, steps=12, save_steps=0)
TOKEN = "a token that rotates"


class Programs:
    """A build folder whose fmengine-train trains slowly while the file `slow` is there, so that a
    fault comes in time however busy the machine is."""

    def __init__(self, case, step_ms=100):
        self.folder = case.folder / "programs"
        self.folder.mkdir()
        self.slow = self.folder / "slow"
        self.slow.touch()
        real = case.settings.build
        (self.folder / "fmengine").symlink_to(real / "fmengine")
        program = self.folder / "fmengine-train"
        fault = f"point=step.pre,action=sleep:{step_ms}"
        program.write_text(f'#!/bin/sh\n[ -e {self.slow} ] && export FME_FAULT="{fault}"\n'
                           f'exec {real}/fmengine-train "$@"\n')
        program.chmod(0o755)


def words_of(case, output=None, run=RUN):
    """Arguments of fmengine-train; without an output folder where the example chooses it."""
    words = tiny.words(run, case.settings.scratch, output or "none")
    at = words.index("--output_dir")
    return words if output else words[:at] + words[at + 2:]


def check_finished(case, output, references, run=RUN):
    """Every step once, with the numbers of a run that nobody disturbed."""
    path = output / "metrics.jsonl"
    problem = metrics.difference(references.steps(run), metrics.steps(path), run.steps)
    case.expect(not problem, f"the run differs: {problem}")
    problem = metrics.repeated(path)
    case.expect(not problem, f"metrics.jsonl must show every step once: {problem}")


def wait_for_step(output, step):
    """Until metrics.jsonl has this step and a checkpoint is there."""
    jobs.eventually(jobs.PATIENCE_S, lambda: metrics.last_step(output / "metrics.jsonl") >= step
                    and checkpoints.listed(output))


class Batch:
    """A job of sbatch."""

    def __init__(self, case, hosts, words, script="job.sbatch", build=None):
        self.hosts = hosts
        self.log = case.folder / "job.log"
        self.programs = None if build else Programs(case)
        variables = (f"FME_BUILD={build or self.programs.folder}", "OMP_NUM_THREADS=1")
        answer = self.ask("env", *variables, "sbatch", "--parsable", "--nodes=2",
                          "--ntasks-per-node=1", "--chdir=/", f"--output={self.log}",
                          EXAMPLES / script, *words)
        case.expect(answer.isdigit(), f"sbatch answers {answer!r}")
        self.number = answer
        case.undo.append(lambda: self.ask("scancel", "--signal=KILL", "--full", self.number))

    def ask(self, *words):
        """What a command of Slurm answers."""
        done = subprocess.run(self.hosts.on("hosta", *words), capture_output=True, text=True,
                              env={**os.environ, **self.hosts.environment})
        return (done.stdout + done.stderr).strip()

    def fact(self, name):
        """One of `scontrol show job`."""
        shown = self.ask("scontrol", "show", "job", "--oneliner", self.number)
        return (re.findall(rf"\b{name}=(\S+)", shown) or [""])[0]

    def start_again(self, restarts):
        """Until it runs again. Slurm lets two minutes pass, so that slow nodes forget the last
        start; here a second is enough, because what it revokes is told apart by the second."""
        state = lambda *names: self.fact("JobState") in names
        jobs.eventually(jobs.PATIENCE_S, lambda: state("PENDING", "FAILED"), 0.1)
        self.ask("scontrol", "update", f"JobId={self.number}", "StartTime=now+2seconds")
        jobs.eventually(jobs.PATIENCE_S, lambda: not state("PENDING") and self.fact("Restarts") == str(restarts), 0.1)

    def wait(self):
        """Until it has ended; its state."""
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        jobs.eventually(jobs.PATIENCE_S, lambda: self.fact("JobState") in ended, 0.1)
        return self.fact("JobState")


def batch(case, hosts, references):
    """job.sbatch: SIGTERM ahead of a limit and a killed rank are requeued and resumed."""
    output = case.folder / "out"
    job = Batch(case, hosts.get("slurm"), words_of(case, output))
    wait_for_step(output, 3)
    job.ask("scancel", "--batch", "--signal=TERM", job.number)
    jobs.eventually(jobs.PATIENCE_S, lambda: "job.sbatch: exit code" in jobs.file_text(job.log))
    said = jobs.file_text(job.log)
    case.expect("exit code 75 (try-again) after 0 restarts" in said, said[-2000:])
    at = max(checkpoints.listed(output))
    job.start_again(1)
    wait_for_step(output, at + 3)
    ranks = engines.ranks(output)
    case.expect(len(ranks) == 2, f"2 ranks go on, found {ranks}: " + jobs.file_text(job.log)[-2000:])
    job.programs.slow.unlink()
    os.kill(ranks[case.rng.randrange(2)], signal.SIGKILL)
    job.start_again(2)
    state = job.wait()
    said = jobs.file_text(job.log)
    case.expect(state == "COMPLETED", f"{state}: {said[-2000:]}")
    case.expect("exit code 137 (try-again) after 1 restarts" in said, said[-2000:])
    case.expect(f"resuming at step {at}" in said, said[-2000:])
    check_finished(case, output, references)


def batch_permanent(case, hosts):
    """job.sbatch: what would end alike is not started again."""
    job = Batch(case, hosts.get("slurm"), [*words_of(case, case.folder / "out"), "--nonsense", "1"])
    state = job.wait()
    said = jobs.file_text(job.log)
    case.expect("exit code 10 (permanent) after 0 restarts" in said, said[-2000:])
    case.expect((state, job.fact("ExitCode")) == ("FAILED", "10:0"), f"{state}: {said[-2000:]}")


def seeds_script(case, hosts, references):
    """fmengine_slurm.sbatch: a step and an agent on each host."""
    output = case.folder / "out"
    words = words_of(case, output, SHORT_RUN)
    job = Batch(case, hosts.get("slurm"), words, "fmengine_slurm.sbatch", case.settings.build)
    state = job.wait()
    case.expect(state == "COMPLETED", f"{state}: {jobs.file_text(job.log)[-2000:]}")
    check_finished(case, output, references, SHORT_RUN)


def seeds_script_permanent(case, hosts):
    """fmengine_slurm.sbatch: the code of a rank is that of the job."""
    words = [*words_of(case, case.folder / "out"), "--nonsense", "1"]
    job = Batch(case, hosts.get("slurm"), words, "fmengine_slurm.sbatch", case.settings.build)
    state = job.wait()
    found = (state, job.fact("ExitCode"))
    case.expect(found == ("FAILED", "10:0"), f"{found}: {jobs.file_text(job.log)[-2000:]}")


def host_script(case, hosts, references, script, needs):
    """mpirun_hosts.sh, launch_hosts.sh: a rank on each host of the file `hosts`."""
    cluster.require(needs)
    made = hosts.get("ssh")
    output = case.folder / "out"
    job = jobs.Job(case.settings, jobs.Launch([], starter="none"), case.folder / "job")
    case.jobs.append(job)
    variables = {"FME_BUILD": str(case.settings.build), "FME_INTERFACE": "card"}
    words = [EXAMPLES / script, *words_of(case, output, SHORT_RUN)]
    job.start(0, made.on("hosta", *words), variables)
    job.wait()
    case.expect_codes(job, (0,), script)
    case.expect_words(job, "no shared memory")  # each rank has a host to itself
    check_finished(case, output, references, SHORT_RUN)


def ray_words(case, build, *more):
    """ray_train.py with two ranks."""
    words = [engines.PYTHON, EXAMPLES / "ray_train.py", "--workers", 2, "--cpus", 0.5, "--storage",
             case.folder, "--name", "run", "--build", build, *more, "--", *words_of(case, run=RAY_RUN)]
    return [str(word) for word in words]


def ray_job(case, programs, *more):
    """ray_train.py, started."""
    variables = {"HOME": case.folder, "RAY_USAGE_STATS_ENABLED": 0, "RAY_AUTH_MODE": "disabled",
                 "RAY_TMPDIR": "/run", "RAY_DEDUP_LOGS": 0, "RAY_worker_niceness": 0}  # else 15
    variables = {name: str(value) for name, value in variables.items()}
    job = jobs.Job(case.settings, jobs.Launch([], starter="none"), case.folder / f"job{len(case.jobs)}")
    case.jobs.append(job)
    job.start(0, ray_words(case, programs.folder, *more), variables)
    return job


def ray_ranks(case, job, output):
    """Two ranks that train, behind step 3 and the first checkpoint."""
    jobs.eventually(jobs.PATIENCE_S, lambda: len(engines.ranks(output)) == 2
                    and metrics.last_step(output / "metrics.jsonl") >= 3
                    and checkpoints.listed(output) or job.ended())
    ranks = engines.ranks(output)
    case.expect(len(ranks) == 2, f"2 ranks train, found {ranks}")
    return ranks


def ray_finished(case, job, output, references):
    """The rest of the run."""
    job.wait(3 * jobs.PATIENCE_S)
    case.expect_codes(job, (0,), "ray_train.py")
    case.expect_words(job, "resuming at step", "last report: {'step': 30,")
    check_finished(case, output, references, RAY_RUN)


def ray(case, references):
    """ray_train.py: a killed rank is started again by Ray, and resumes."""
    if not engines.has_module("ray.train"):
        raise suite.Skipped(f"not in {engines.PYTHON}: ray")
    output = case.folder / "run" / "fmengine"
    programs = Programs(case, 300)
    job = ray_job(case, programs, "--max_failures", 1)
    ranks = ray_ranks(case, job, output)
    programs.slow.unlink()
    os.kill(ranks[case.rng.randrange(2)], signal.SIGKILL)
    ray_finished(case, job, output, references)


def ray_driver(case, references):
    """ray_train.py: behind kill -9 of the driver its ranks end, and the same command goes on."""
    if not engines.has_module("ray.train"):
        raise suite.Skipped(f"not in {engines.PYTHON}: ray")
    output = case.folder / "run" / "fmengine"
    programs = Programs(case, 300)
    job = ray_job(case, programs)
    ray_ranks(case, job, output)
    job.send(0, signal.SIGKILL)
    gone = jobs.eventually(jobs.PATIENCE_S, lambda: not engines.ranks(output), 0.1)
    case.expect(gone, "the ranks end when their driver is lost")
    case.expect(metrics.last_step(output / "metrics.jsonl") < 30, "the run was interrupted")
    programs.slow.unlink()
    ray_finished(case, ray_job(case, programs), output, references)


def accelerated(case, references):
    """accelerate.yaml with the command of its head."""
    if not engines.has_module("accelerate"):
        raise suite.Skipped(f"not in {engines.PYTHON}: accelerate")
    before = (engines.PYTHON, "-m", "accelerate.commands.launch", "--config_file",
              str(EXAMPLES / "accelerate.yaml"), "--main_process_port=PORT", "--no_python")
    words = [*words_of(case, case.folder / "out"), "--resume", "auto"]
    job = case.finish(jobs.Launch(words, starter="engine", engine=before))
    case.expect_codes(job, (0,), "accelerate launch")
    check_finished(case, case.folder / "out", references)


class Server(http.server.BaseHTTPRequestHandler):
    """Kubeflow's end of the progress protocol."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.headers["Authorization"], json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """Nothing."""


def progress(case):
    """kubeflow_progress.sh: what it posts is what the protocol asks for."""
    certificate = case.folder / "tls.pem"
    done = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", certificate,
         "-out", case.folder / "ca.pem"], capture_output=True)
    case.expect(done.returncode == 0, done.stderr.decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(case.folder / "ca.pem", certificate)
    server = http.server.HTTPServer(("localhost", 0), Server)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    case.undo.append(server.shutdown)
    row = {"step": 3, "loss": 5.25, "grad_norm": 1.5, "lr": 0.001, "step_time": 2.5}
    lines = case.folder / "metrics.jsonl"
    lines.write_text(json.dumps(row) + "\n")
    (case.folder / "token").write_text(TOKEN + "\n")
    variables = {"URL": f"https://localhost:{server.server_port}/", "CA_CERT": case.folder / "ca.pem",
                 "TOKEN": case.folder / "token"}
    variables = {f"KUBEFLOW_TRAINER_SERVER_{name}": str(value) for name, value in variables.items()}
    job = jobs.Job(case.settings, jobs.Launch([], starter="none"), case.folder / "job")
    case.jobs.append(job)
    job.start(0, [str(EXAMPLES / "kubeflow_progress.sh"), str(case.folder), "12", "0.05"], variables)
    jobs.eventually(jobs.PATIENCE_S, lambda: server.seen or job.ended())
    with lines.open("a") as file:
        file.write(json.dumps({**row, "step": 12, "loss": 5.0}) + "\n")
    job.wait()
    case.expect_codes(job, (0,), "kubeflow_progress.sh")
    check_posts(case, server.seen)


def check_posts(case, seen):
    """The first post is of step 3 of 12, the last one of the end."""
    case.expect(all(token == f"Bearer {TOKEN}" for token, _ in seen), "the token must be there")
    first, last = seen[0][1]["trainerStatus"], seen[-1][1]["trainerStatus"]
    wanted = {"progressPercentage": 25, "estimatedRemainingSeconds": 22,
              "metrics": [{"name": "step", "value": "3"}, {"name": "loss", "value": "5.25"}]}
    stamp = first.pop("lastUpdatedTime")
    case.expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp), stamp)
    case.expect(first == wanted, f"posted {first}")
    case.expect(last["progressPercentage"] == 100 and last["estimatedRemainingSeconds"] == 0, str(last))


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    hosts = launchers.Hosts(suite)
    try:
        images.run(suite)
        suite.case("jobset.yaml/0", manifests.jobset)
        suite.case("trainjob.yaml/0", manifests.trainjob)
        suite.case("kubeflow_progress.sh/0", progress)
        suite.case("accelerate.yaml/0", accelerated, references)
        suite.case("ray_train.py/0", ray, references)
        suite.case("ray_train.py/driver", ray_driver, references)
        suite.case("job.sbatch/0", batch, hosts, references)
        suite.case("job.sbatch/permanent", batch_permanent, hosts)
        suite.case("fmengine_slurm.sbatch/0", seeds_script, hosts, references)
        suite.case("fmengine_slurm.sbatch/permanent", seeds_script_permanent, hosts)
        suite.case("mpirun_hosts.sh/0", host_script, hosts, references, "mpirun_hosts.sh", "mpirun")
        suite.case("launch_hosts.sh/0", host_script, hosts, references, "launch_hosts.sh", "pdsh")
    finally:
        hosts.close()
