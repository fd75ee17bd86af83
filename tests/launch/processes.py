"""fmengine run and fmengine launch as processes: scripts are the ranks. What reaches other hosts
goes through real pdsh, and through an ssh of this test or a real sshd in namespaces of its own."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "faults"))
import isolation  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
WATCHDOG_S = 120
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "PET_", "FME_",
           "TORCHELASTIC_", "OMP_", "PDSH_")
SECRET = "value-that-nobody-may-see"


def eventually(condition, what):
    end = time.monotonic() + WATCHDOG_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.02)


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.variables = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        self.variables["HOME"] = str(self.folder)
        self.started = []
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def script(self, text, name="rank.sh"):
        path = self.folder / name
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)
        return str(path)

    def begin(self, program, *words, **variables):
        process = subprocess.Popen(
            [str(BUILD / f"fmengine-{program}"), *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=self.folder,
            env={**self.variables, **variables}, start_new_session=True)
        self.started.append(process)
        return process

    def end(self, process):
        out, err = process.communicate(timeout=WATCHDOG_S)
        return process.returncode, out, err

    def run_it(self, program, *words, **variables):
        return self.end(self.begin(program, *words, **variables))

    def first_with(self, wanted, start):
        """Code and words of the first of three starts that ends with that code, else of the last:
        a stolen core may cost more than the patience for the cause of an end."""
        for _ in range(3):
            for old in [*self.folder.glob("pid.*"), *self.folder.glob("agent.*")]:
                old.unlink()
            code, _, err = start()
            if code == wanted:
                break
        return code, err

    def file(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def pids(self, count):
        """Of ranks that wrote pid.RANK."""
        def there():
            return all(self.file(f"pid.{rank}").endswith("\n") for rank in range(count))
        eventually(there, "every rank starts")
        return [int(self.file(f"pid.{rank}")) for rank in range(count)]


NOTE_PID = 'echo $$ > pid.$RANK.new; mv pid.$RANK.new pid.$RANK\n'
# A shell waits for a child before it takes a signal: this one waits in a builtin.
WAIT = 'exec {fd}<> <(:); while :; do read -t 600 -u $fd; done\n'


class Run(Case):
    def test_ranks_know_their_places(self):
        rank = self.script('echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK '
                           '$MASTER_ADDR ${#FME_JOB_TOKEN} ${OMP_NUM_THREADS-unset} $1"\n')
        code, out, err = self.run_it("run", "--nproc-per-node", "3", "--", rank, "two words")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), [
            "0 3 0 3 0 127.0.0.1 64 unset two words",
            "[rank 1] 1 3 1 3 0 127.0.0.1 64 unset two words",
            "[rank 2] 2 3 2 3 0 127.0.0.1 64 unset two words"])

    def test_nodes_and_defaults_of_kubeflow(self):
        rank = self.script('echo "$RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR:$MASTER_PORT"\n')
        said = "[rank 3] 3 4 1 job-0:23456"
        code, out, _ = self.run_it("run", rank, PET_NNODES="2", PET_NODE_RANK="1",
                                   PET_NPROC_PER_NODE="2", PET_MASTER_ADDR="job-0",
                                   PET_MASTER_PORT="23456", FME_JOB_TOKEN="ab" * 16)
        self.assertEqual(code, 0)
        self.assertIn(said, out.splitlines())
        # PyTorchJob of Kubeflow 1: pods are nodes.
        code, out, _ = self.run_it("run", "--nproc_per_node=2", rank, RANK="1", WORLD_SIZE="2",
                                   MASTER_ADDR="job-0", MASTER_PORT="23456",
                                   FME_JOB_TOKEN="ab" * 16)
        self.assertIn(said, out.splitlines())

    def test_a_token_in_a_file(self):
        rank = self.script('echo "$RANK ${FME_JOB_TOKEN-unset} $FME_JOB_TOKEN_FILE"\n')
        code, out, err = self.run_it("run", "--nnodes", "2", "--node_rank", "1", "--master_addr",
                                     "a", rank, FME_JOB_TOKEN_FILE="secret")
        self.assertEqual((code, out), (0, "[rank 1] 1 unset secret\n"), err)

    def test_refusals(self):
        for words, said in (
                (["--nnodes", "2", "--master_addr", "a", "x"], "FME_JOB_TOKEN must be"),
                (["--nnodes", "2", "x"], "--master_addr must name"),
                (["--nnodes", "1:2", "x"], "must be one number"),
                (["--nproc_per_node", "0", "x"], "--nproc_per_node"),
                (["--rdzv_backend", "c10d", "x"], "has no --rdzv_backend"),
                (["--nproc_per_nod", "2", "x"], "nproc_per_node"),
                ([], "a command for the ranks is required")):
            code, _, err = self.run_it("run", *words)
            self.assertEqual(code, 10, err)
            self.assertIn(said, err)

    def test_the_first_failure_ends_all(self):
        rank = self.script(NOTE_PID + '''if [ $RANK = 1 ]; then
  until [ -e pid.0 ] && [ -e pid.2 ]; do sleep 0.02; done
  echo "the reason" >&2; exit 26
fi
[ $RANK = 2 ] && trap "" TERM
''' + WAIT)
        code, _, err = self.run_it("run", "--nproc_per_node", "3", rank)
        self.assertEqual(code, 26)
        self.assertRegex(err, "rank 1 of .* ended first, with exit code 26; its last "
                              "lines:\n  the reason\n")
        for pid in self.pids(3):
            self.assertFalse(lives(pid))

    def test_a_lost_peer_is_not_the_cause(self):
        rank = self.script(NOTE_PID + '''if [ $RANK = 1 ]; then
  until [ -e pid.0 ]; do sleep 0.02; done
  kill -9 $$
fi
until [ -e pid.1 ]; do sleep 0.02; done
while [ -e /proc/$(cat pid.1)/exe ]; do sleep 0.02; done
exit 20
''')
        code, _, err = self.run_it("run", "--nproc_per_node", "2", rank)
        self.assertEqual(code, 137)
        self.assertIn("rank 1 of", err)

    def test_a_cause_may_be_noticed_after_its_effect(self):
        rank = self.script(NOTE_PID + '''until [ -e pid.0 ] && [ -e pid.1 ]; do sleep 0.02; done
[ $RANK = 0 ] && exit 20
while [ -e /proc/$(cat pid.0)/exe ]; do sleep 0.02; done
kill -9 $$
''')
        code, err = self.first_with(
            137, lambda: self.run_it("run", "--nproc_per_node", "2", rank))
        self.assertEqual(code, 137)
        self.assertIn("rank 1 of", err)

    def test_a_signal_lets_ranks_save(self):
        rank = self.script('trap "exit 75" TERM INT\n' + NOTE_PID + WAIT)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            agent = self.begin("run", "--nproc_per_node", "2", rank)
            self.pids(2)
            agent.send_signal(number)
            self.assertEqual(self.end(agent)[0], 75)
            for old in self.folder.glob("pid.*"):
                old.unlink()

    def test_a_second_interrupt_kills(self):
        rank = self.script('trap "touch asked.$RANK" TERM\n' + NOTE_PID + WAIT)
        agent = self.begin("run", "--nproc_per_node", "2", rank)
        pids = self.pids(2)
        agent.send_signal(signal.SIGINT)
        eventually(lambda: (self.folder / "asked.1").exists(), "the signal is passed on")
        agent.send_signal(signal.SIGINT)
        self.assertEqual(self.end(agent)[0], 130)
        self.assertFalse(any(map(lives, pids)))

    def test_signals_within_seconds_are_one(self):
        rank = self.script('trap "exit 75" TERM\n' + NOTE_PID + WAIT)
        agent = self.begin("run", "--nproc_per_node", "2", rank)
        self.pids(2)
        os.kill(agent.pid, signal.SIGSTOP)  # both are there when it looks
        agent.send_signal(signal.SIGTERM)
        agent.send_signal(signal.SIGHUP)
        agent.send_signal(signal.SIGCONT)
        self.assertEqual(self.end(agent)[0], 75)

    def test_a_script_is_over_when_what_it_started_is(self):
        inner = self.script('trap "until [ -e go ]; do sleep 0.02; done; echo saved; exit 75" TERM\n'
                            + NOTE_PID + WAIT, "inner.sh")
        first = self.script('trap "exit 0" TERM\n' + WAIT, "first.sh")
        rank = self.script(f"echo $$ > shell.$RANK\n{first} &\n{inner}\necho not reached\n")
        agent = self.begin("run", "--nproc_per_node", "2", rank)
        pids = self.pids(2)
        agent.send_signal(signal.SIGTERM)
        shells = [int(self.file(f"shell.{number}")) for number in range(2)]
        eventually(lambda: not any(map(lives, shells)), "the shells end")
        self.assertTrue(all(map(lives, pids)))
        (self.folder / "go").touch()
        code, out, err = self.end(agent)
        self.assertEqual(code, 75, err)
        self.assertEqual(out.count("saved"), 2)
        self.assertFalse(any(map(lives, pids)))

    def test_what_a_rank_leaves_behind_keeps_nobody(self):
        for end in ("exit 143", "kill -TERM $$"):
            rank = self.script(f"sleep 1000 &\necho $! > left\n{end}\n")
            code, _, err = self.run_it("run", rank)
            os.kill(int(self.file("left")), signal.SIGKILL)
            self.assertEqual(code, 143, err)

    def test_another_signal_after_five_seconds_kills(self):
        rank = self.script('trap "touch asked" TERM\n' + NOTE_PID + WAIT)
        agent = self.begin("run", rank)
        pids = self.pids(1)
        agent.send_signal(signal.SIGTERM)
        eventually((self.folder / "asked").exists, "the signal is passed on")
        time.sleep(5.1)  # what is later is as good
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(agent)[0], 143)
        self.assertFalse(any(map(lives, pids)))

    def test_one_that_never_ends_a_line_of_output_stops_too(self):
        rank = self.script(NOTE_PID + "exec yes\n")
        agent = subprocess.Popen([str(BUILD / "fmengine-run"), rank], stdout=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                 cwd=self.folder, env=self.variables, start_new_session=True)
        self.started.append(agent)
        self.pids(1)
        agent.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(agent)[0], 143)

    def test_an_own_code_of_one_that_was_told_is_no_cause(self):
        rank = self.script('trap "exit 1" TERM\n' + NOTE_PID + '''if [ $RANK = 1 ]; then
  until [ -e pid.0 ]; do sleep 0.02; done
  exit 20
fi
''' + WAIT)
        code, _, err = self.run_it("run", "--nproc_per_node", "2", rank)
        self.assertEqual(code, 20, err)

    def test_ranks_die_with_the_agent(self):
        rank = self.script('trap "" TERM\n' + NOTE_PID + WAIT)
        agent = self.begin("run", "--nproc_per_node", "2", rank)
        pids = self.pids(2)
        agent.kill()
        eventually(lambda: not any(map(lives, pids)), "the ranks die")

    def test_a_file_for_each_rank(self):
        rank = self.script('echo "out $RANK"; echo "err $RANK" >&2; touch done.$RANK\n'
                           '[ $RANK = 0 ] && exit 0\n'
                           'until [ -e done.0 ]; do sleep 0.02; done; exit 7\n')
        code, out, err = self.run_it("run", "--nproc_per_node", "2", "--log_dir", "logs", rank,
                                     FME_RESTART_COUNT="3")
        self.assertEqual((code, out), (7, ""))
        self.assertIn("  err 1\n", err)
        self.assertEqual(self.file("logs/attempt_3/0/stdout.log"), "out 0\n")
        self.assertEqual(self.file("logs/attempt_3/1/stderr.log"), "err 1\n")
        # The same command again, as its message says: what the first one wrote may say why it died,
        # and is not taken for what the second one wrote.
        silent = self.script("exit 7\n")
        _, _, err = self.run_it("run", "--nproc_per_node", "2", "--log_dir", "logs", silent,
                                FME_RESTART_COUNT="3")
        self.assertNotIn("err 1", err)
        self.assertEqual(self.file("logs/attempt_3/1/stderr.log"), "err 1\n")

    def test_a_command_of_fmengine(self):
        code, out, err = self.run_it("run", "--nproc_per_node", "2", "train", "--where")
        self.assertEqual(code, 0, err)
        self.assertIn("engine:     fmengine run", out)
        self.assertIn("[rank 1] rank:       1 of 2", out)


SSH = '''#!/usr/bin/env python3
"""Stands for ssh: notes its words, and runs the command here. The host is the word before it, or
follows pdsh's -lUSER."""
import os, sys
words = sys.argv[1:]
host = next(w for w in words if w.split(".")[0] in ("alpha", "beta", "gone"))
with open(os.environ["SSH_LOG"], "a") as log:
    log.write(repr(["ssh", *words]) + "\\n")
if host.startswith("gone") or os.path.exists("down." + host):
    sys.exit(255)
if words[-1] == "true" and os.path.exists("slow"):
    open("asked", "w").close()
    os.execvp("sleep", ["sleep", "1000"])
for name in list(os.environ):
    if name.startswith(("HF_", "FME_")):
        del os.environ[name]  # another host does not have them
with open("agent.%s.new" % host, "w") as file:
    file.write("%d\\n" % os.getpid())
os.rename("agent.%s.new" % host, "agent." + host)
os.execvp("sh", ["sh", "-c", "exec " + words[-1] if words[-1] != "true" else "true"])
'''


NOTE_WORDS = '''#!/usr/bin/env python3
import os, sys
append = os.environ.get("PDSH_SSH_ARGS_APPEND") if sys.argv[0].endswith("pdsh") else None
with open(os.environ["SSH_LOG"], "a") as log:
    words = ["PDSH_SSH_ARGS_APPEND=" + append] if append else []
    log.write(repr([*words, os.path.basename(sys.argv[0]), *sys.argv[1:]]) + "\\n")
'''


class Launch(Case):
    TRANSPORTS = ("ssh", "pdsh")

    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        ssh = self.folder / "bin" / "ssh"
        ssh.write_text(SSH)
        ssh.chmod(0o755)
        self.variables["PATH"] = f"{self.folder}/bin:{self.variables['PATH']}"
        self.variables["SSH_LOG"] = str(self.folder / "ssh.log")
        self.variables["HF_TOKEN"] = SECRET
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("alpha slots=2\nbeta slots=1\n")

    def clean(self):
        for old in [*self.folder.glob("pid.*"), *self.folder.glob("agent.*")]:
            old.unlink()

    def launch(self, transport, *words, **variables):
        return self.begin("launch", "--hostfile", "hosts", "--launcher", transport, *words,
                          **variables)

    def each(self):
        for transport in self.TRANSPORTS:
            if shutil.which(transport):
                with self.subTest(transport=transport):
                    self.clean()
                    yield transport

    def test_ranks_know_their_places(self):
        rank = self.script('echo "$RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK $MASTER_ADDR '
                           '$MASTER_PORT $CUDA_VISIBLE_DEVICES ${#FME_JOB_TOKEN} $HF_TOKEN $X"\n')
        (self.folder / ".deepspeed_env").write_text("# none\n\nX=\"a b\"\n")
        for transport in self.each():
            code, out, err = self.end(self.launch(transport, rank))
            self.assertEqual(code, 0, err)
            self.assertEqual(sorted(out.splitlines()), [
                f"0 3 0 0 alpha 29500 0,1 64 {SECRET} a b",
                f"[rank 1] 1 3 1 0 alpha 29500 0,1 64 {SECRET} a b",
                f"[rank 2] 2 3 0 1 alpha 29500 0 64 {SECRET} a b"])
            self.assertEqual(list(self.folder.glob(".fmengine-launch-*")), [])

    def test_own_ports_and_tokens(self):
        rank = self.script('echo "$MASTER_PORT ${FME_MASTER_PORT-unset} ${FME_JOB_TOKEN-unset}"\n')
        token = "ab" * 16
        for transport in self.each():
            for flags, variables, said in (
                    ([], {"FME_MASTER_PORT": "31000", "FME_JOB_TOKEN_FILE": "secret"},
                     "31000 unset unset"),
                    (["--env", f"FME_JOB_TOKEN={token}", "--env", "FME_MASTER_PORT=31001"],
                     {"FME_MASTER_PORT": "31000", "FME_JOB_TOKEN": "cd" * 16},
                     f"31001 unset {token}"),
                    (["--master_port", "31002"],
                     {"FME_MASTER_PORT": "31000", "FME_JOB_TOKEN": token},
                     f"31002 unset {token}")):
                code, out, err = self.end(
                    self.launch(transport, "-i", "alpha:0", *flags, rank, **variables))
                self.assertEqual((code, out), (0, said + "\n"), err)

    def test_nothing_secret_is_on_a_command_line(self):
        rank = self.script('trap "exit 75" TERM\n' + NOTE_PID + WAIT)
        token = "feed" * 16
        for transport in self.each():
            launcher = self.launch(transport, rank, FME_JOB_TOKEN=token)
            self.pids(3)
            lines = b""
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    lines += pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    pass
            self.assertIn(b"fmengine-run", lines)
            self.assertNotIn(SECRET.encode(), lines)
            self.assertNotIn(token.encode(), lines)
            launcher.send_signal(signal.SIGTERM)
            self.assertEqual(self.end(launcher)[0], 75)

    def test_what_is_printed_is_what_is_run(self):
        rank = self.script("exit 0\n")
        code, printed, _ = self.end(self.launch("ssh", "--ssh_port", "2222", "--print", rank))
        self.assertEqual(code, 0)
        self.assertEqual(self.file("ssh.log"), "")
        self.assertEqual(self.end(self.launch("ssh", "--ssh_port", "2222", rank))[0], 0)
        said = sorted(repr(shlex.split(line)) for line in printed.splitlines())
        self.assertEqual(said, sorted(self.file("ssh.log").splitlines()))

    def test_what_is_printed_is_what_is_run_by_one_program(self):
        rank = self.script("exit 0\n")
        for transport, program in (("pdsh", "pdsh"), ("openmpi", "mpirun"), ("slurm", "srun")):
            (self.folder / "ssh.log").unlink(missing_ok=True)
            path = self.folder / "bin" / program
            path.write_text(NOTE_WORDS)
            path.chmod(0o755)
            self.hosts.write_text("alpha slots=2\nbeta slots=2\n")
            words = ["--launcher_args", "--one 'two words'"]
            words += [] if transport == "slurm" else ["--ssh_port", "2222"]
            code, printed, err = self.end(self.launch(transport, *words, "--print", rank))
            self.assertEqual(code, 0, err)
            self.assertEqual(self.end(self.launch(transport, *words, rank))[0], 0)
            said = [word for word in shlex.split(printed) if not word.startswith("PDSH_RCMD")]
            run = self.file("ssh.log")
            # The file of pdsh's agents has a tag of the launcher's process in its name.
            without_tag = [re.sub(r"(fmengine-launch-)[0-9a-f]+", r"\1N", text)
                           for text in (repr(said) + "\n", run)]
            self.assertEqual(*without_tag)
            path.unlink()

    def test_the_first_failure_ends_all_hosts(self):
        rank = self.script(NOTE_PID + '''if [ $RANK = 2 ]; then
  until [ -e pid.0 ] && [ -e pid.1 ]; do sleep 0.02; done
  echo "the reason" >&2; exit 26
fi
trap "" TERM
''' + WAIT)
        for transport in self.each():
            code, _, err = self.end(self.launch(transport, rank))
            self.assertEqual(code, 26, err)
            self.assertIn("rank 2 on beta ended first, with exit code 26; its last "
                          "lines:\n  the reason\n", err)
            pids = self.pids(3)
            eventually(lambda: not any(map(lives, pids)), "all ranks end")  # noqa: B023

    def test_a_lost_peer_on_another_host_is_not_the_cause(self):
        rank = self.script(NOTE_PID + '''until [ -e pid.0 ] && [ -e pid.1 ] && [ -e pid.2 ]; do
  sleep 0.02
done
[ $RANK = 2 ] && kill -9 $$
while [ -e /proc/$(cat pid.2)/exe ]; do sleep 0.02; done
exit 20
''')
        for transport in self.each():
            code, _, err = self.end(self.launch(transport, rank))
            self.assertEqual(code, 137, err)
            self.assertIn("rank 2 on beta ended first", err)

    def test_a_cause_may_be_known_after_its_effects_have_ended(self):
        rank = self.script(NOTE_PID + '''until [ -e pid.0 ] && [ -e pid.1 ] && [ -e pid.2 ]; do
  sleep 0.02
done
[ $RANK = 2 ] || exit 20
while [ -e /proc/$(cat agent.alpha)/exe ]; do sleep 0.02; done
kill -9 $$
''')
        for transport in self.each():
            code, err = self.first_with(
                137, lambda: self.end(self.launch(transport, rank)))  # noqa: B023
            self.assertEqual(code, 137, err)
            self.assertIn("rank 2 on beta ended first", err)

    def test_all_end_with_the_launcher(self):
        rank = self.script('trap "" TERM\n' + NOTE_PID + WAIT)
        for transport in self.each():
            launcher = self.launch(transport, rank)
            pids = self.pids(3)
            launcher.kill()
            eventually(lambda: not any(map(lives, pids)), "all ranks end")  # noqa: B023

    def test_a_lost_agent_ends_the_other_hosts(self):
        rank = self.script('trap "" TERM\n' + NOTE_PID + WAIT)
        for transport in self.each():
            launcher = self.launch(transport, rank)
            pids = self.pids(3)
            os.kill(int(self.file("agent.beta")), signal.SIGKILL)
            code, _, err = self.end(launcher)
            self.assertIn(code, (20, 137), err)
            eventually(lambda: not any(map(lives, pids)), "all ranks end")  # noqa: B023

    def test_a_host_that_does_not_answer(self):
        rank = self.script(NOTE_PID + WAIT)
        for domain in ("", ".lab.net"):  # pdsh leaves it out of what it tells
            self.hosts.write_text(f"alpha{domain} slots=1\ngone{domain} slots=1\n")
            for transport in self.each():
                code, _, err = self.end(self.launch(transport, rank))
                self.assertEqual(code, 14, err)
                self.assertIn(f"gone{domain} must answer to ssh", err)

    def test_a_signal_during_the_question_to_hosts_is_the_end(self):
        rank = self.script("[ $FME_RESTART_COUNT = 0 ] && exit 20; touch again\n")
        (self.folder / "slow").touch()
        for transport in self.each():
            (self.folder / "asked").unlink(missing_ok=True)
            launcher = self.launch(transport, "--max_restarts", "1", rank)
            eventually((self.folder / "asked").exists, "hosts are asked")
            launcher.send_signal(signal.SIGTERM)
            self.assertEqual(self.end(launcher)[0], 143)
            self.assertFalse((self.folder / "again").exists())

    def test_hosts_that_are_killed_are_not_those_that_saved(self):
        rank = self.script('trap "exit 75" TERM\n[ $RANK = 2 ] && trap "touch asked" TERM\n'
                           + NOTE_PID + WAIT)
        launcher = self.launch("ssh", rank)
        pids = self.pids(3)
        launcher.send_signal(signal.SIGINT)
        alpha = int(self.file("agent.alpha"))
        eventually(lambda: (self.folder / "asked").exists() and not lives(alpha), "one host saves")
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(self.end(launcher)[0], 130)
        eventually(lambda: not any(map(lives, pids)), "all ranks end")

    def test_an_order_by_two_ways_is_one(self):
        self.hosts.write_text("localhost slots=2\n")
        rank = self.script('trap "exit 75" TERM\n[ $RANK = 0 ] && echo $FME_AGENT > agent\n'
                           + NOTE_PID + WAIT)
        launcher = self.launch("pdsh", rank)
        self.pids(2)
        agent = int(self.file("agent"))
        os.kill(agent, signal.SIGSTOP)
        os.kill(agent, signal.SIGTERM)  # as systemd does, to all processes of a unit
        launcher.send_signal(signal.SIGTERM)
        stat = f"/proc/{launcher.pid}/status"
        taken = lambda: not int(re.search(r"ShdPnd:\s*(\w+)", pathlib.Path(stat).read_text())[1], 16)
        eventually(taken, "the launcher has taken its own")
        os.kill(agent, signal.SIGCONT)
        self.assertEqual(self.end(launcher)[0], 75)

    def test_restarts_with_the_hosts_that_answer(self):
        rank = self.script('''echo "start $FME_RESTART_COUNT of $WORLD_SIZE"
if [ $FME_RESTART_COUNT = 0 ]; then
  [ $RANK = 2 ] && touch down.beta && exit 20
  sleep 1000
fi
''')
        for transport in self.each():
            (self.folder / "down.beta").unlink(missing_ok=True)
            code, out, err = self.end(
                self.launch(transport, "--max_restarts", "2", "--min_nodes", "1", rank))
            self.assertEqual(code, 0, err)
            self.assertIn("restart 1 of 2 after exit code 20, 1 of 2 hosts answer", err)
            self.assertIn("start 1 of 2", out.splitlines())
            (self.folder / "down.beta").unlink()
            code, _, err = self.end(self.launch(transport, "--max_restarts", "2", rank))
            self.assertEqual(code, 20)
            self.assertIn("2 hosts are required", err)

    def test_permanent_errors_are_not_tried_again(self):
        rank = self.script("echo x >> starts; exit 10\n")
        self.hosts.write_text("alpha slots=1\nbeta slots=1\n")
        code, _, _ = self.end(self.launch("ssh", "--max_restarts", "5", "-i", "alpha",
                                          "--force_multi", rank))
        self.assertEqual((code, self.file("starts")), (10, "x\n"))

    def test_refusals(self):
        for words, said in (
                (["-i", "alpha", "-e", "beta", "x"], "keep one"),
                (["--num_nodes", "1", "-i", "alpha", "x"], "do not go with"),
                (["--num_nodes", "3", "x"], "--num_nodes 3, 2 hosts"),
                (["--env", "NOT_SET", "x"], "(NOT_SET)"),
                (["--launcher", "mpich", "x"], "must be one of pdsh, ssh, openmpi, slurm"),
                (["--elastic_training", "x"], "--max_restarts N --min_nodes M"),
                (["--node_rank", "0", "x"], "belongs to --no_ssh"),
                (["--no_ssh", "--node_rank", "0", "--max_restarts", "1", "-i", "alpha", "x"],
                 "nothing is started again"),
                (["--min_nodes", "3", "x"], "--min_nodes must be at most"),
                (["--launcher", "slurm", "--max_restarts", "1", "x"], "does not go with"),
                (["--launcher", "openmpi", "--log_dir", "l", "x"], "does not go with"),
                (["--launcher", "openmpi", "-i", "alpha:1", "x"], "the first slots of a host only"),
                (["--hostfile", "none", "x"], "a hostfile is required")):
            words = ["--hostfile", "hosts", *words] if "--hostfile" not in words else words
            code, _, err = self.run_it("launch", *words)
            self.assertIn(code, (10, 11), err)
            self.assertIn(said, err)

    def test_by_hand_on_each_host(self):
        rank = self.script('echo "$RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR"\n')
        code, out, _ = self.end(self.launch("ssh", "--no_ssh", "--node_rank", "1", rank,
                                            FME_JOB_TOKEN="ab" * 16))
        self.assertEqual((code, out), (0, "[rank 2] 2 3 1 alpha\n"))

    def test_this_host_alone_needs_no_launcher(self):
        self.hosts.write_text("localhost slots=2\n")
        rank = self.script('echo "$RANK $MASTER_ADDR"\n')
        code, out, err = self.end(self.launch("pdsh", rank))
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()), ["0 127.0.0.1", "[rank 1] 1 127.0.0.1"])
        again = self.script('echo "$FME_RESTART_COUNT $MASTER_ADDR"\n[ $FME_RESTART_COUNT = 1 ] '
                            '|| exit 20\n', "again.sh")
        code, out, err = self.end(self.launch("pdsh", "--num_gpus", "1", "--max_restarts", "1",
                                              again))
        self.assertEqual((code, out), (0, "0 127.0.0.1\n1 127.0.0.1\n"), err)
        self.assertEqual(self.file("ssh.log"), "")


@unittest.skipUnless(shutil.which("sshd") or os.path.exists("/usr/sbin/sshd"), "no sshd")
class RealSsh(Case):
    """sshd on two addresses of a network namespace."""

    INSIDE = '''
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
import isolation
isolation.enter()
os.makedirs("/run/sshd", exist_ok=True)
folder = sys.argv[2]
for name in ("host", "user"):
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"]
    subprocess.run(words, check=True)
os.rename(f"{folder}/user.pub", f"{folder}/authorized")
for address in ("127.0.0.2", "127.0.0.3"):
    subprocess.run(["/usr/sbin/sshd", "-f", "/dev/null", "-h", f"{folder}/host", "-p", "2222",
                    "-o", f"ListenAddress={address}", "-o", "UsePAM=no", "-o", "StrictModes=no",
                    "-o", f"AuthorizedKeysFile={folder}/authorized",
                    "-o", f"PidFile={folder}/{address}.pid"], check=True)
sys.exit(subprocess.run(sys.argv[3:], cwd=folder, stdin=subprocess.DEVNULL).returncode)
'''

    def test_pdsh_and_ssh(self):
        level = isolation.level()
        if level != "root":
            self.skipTest("needs root")
        (self.folder / "hosts").write_text("127.0.0.2 slots=1\n127.0.0.3 slots=2\n")
        rank = self.script('''echo "$RANK $WORLD_SIZE $GROUP_RANK $HF_TOKEN"
touch done.$RANK
[ $RANK = 2 ] || exit 0
until [ -e done.0 ]; do sleep 0.02; done
exit 26
''')
        options = (f"-i {self.folder}/user -o StrictHostKeyChecking=no "
                   f"-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR")
        for transport in ("ssh", "pdsh"):
            for old in ("host", "host.pub", "user", "authorized", "done.0"):
                (self.folder / old).unlink(missing_ok=True)
            extra = ["--launcher_args", options] if transport == "ssh" else []
            command = [str(BUILD / "fmengine-launch"), "--hostfile", "hosts", "--launcher",
                       transport, "--ssh_port", "2222", "--master_addr", "127.0.0.2", *extra, rank]
            done = subprocess.run(
                [*isolation.LEVELS[level], sys.executable, "-Bc", self.INSIDE,
                 str(HERE.parent / "faults"), str(self.folder), *command],
                capture_output=True, text=True, timeout=WATCHDOG_S,
                env={**self.variables, "HF_TOKEN": SECRET, "PDSH_SSH_ARGS_APPEND": options})
            self.assertEqual(done.returncode, 26, done.stderr)
            self.assertIn("rank 2 on 127.0.0.3 ended first", done.stderr)
            self.assertIn(f"0 3 0 {SECRET}", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
