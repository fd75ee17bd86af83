"""Two hosts behind a bridge, each with a name, a network and an sshd of its own, and Slurm over
both. Everything lies in namespaces and folders of the family: nothing of it outlives the test."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

import disks
import isolation
import jobs
import network
import suite

ADDRESSES = {"hosta": "10.77.0.1", "hostb": "10.77.0.2"}
NEEDS = "hosts with an sshd need root"
SSHD = """
ListenAddress {address}
HostKey {folder}/{name}.key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
SetEnv {mark}
"""
SSH = """
Host {names}
  User root
  IdentityFile {folder}/user.key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
"""
SLURM = """
ClusterName=faults
SlurmctldHost=hosta
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge}/socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=30
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
NodeName=hosta,hostb CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
"""


def of_hosts():
    """Pids of all processes that live in the network of a host."""
    with contextlib.suppress(OSError):
        inodes = {os.stat(f"/run/netns/{name}").st_ino for name in ADDRESSES}
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if net_of(pid) in inodes]
    return []


def net_of(pid):
    """The inode of its network namespace, 0 of one that is gone."""
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    return 0


class Cluster:
    """The hosts, from the start of a case or family to its end. `undo` gets the calls that take
    them down."""

    def __init__(self, case):
        require("sshd", "ssh", "ssh-keygen")
        if case.settings.level != "root":
            raise suite.Skipped(NEEDS)
        self.case = case
        self.folder = case.folder / "cluster"
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        self.holders = {}  # host -> the sshd, which holds its namespaces
        self.environment = {}  # what talks to Slurm needs
        self.name_hosts()
        network.make_hosts(case, ADDRESSES)
        case.undo.append(self.end)
        self.make_keys()
        for name in ADDRESSES:
            self.start_host(name)
        for name in ADDRESSES:
            jobs.eventually(jobs.PATIENCE_S, lambda at=name: self.answers(at))

    def name_hosts(self):
        """Every host finds both by name, and ssh finds its keys: one file each, over the machine's
        own in the mount namespace of the family."""
        names = "".join(f"{address} {name}\n" for name, address in ADDRESSES.items())
        self.cover("/etc/hosts", "127.0.0.1 localhost\n" + names)
        words = {"folder": self.folder, "names": " ".join(ADDRESSES)}
        self.cover("/etc/ssh/ssh_config", SSH.format(**words))
        (self.folder / "hostfile").write_text("".join(f"{name} slots=1\n" for name in ADDRESSES))
        self.cover("/etc/shadow", "root:*:19000:0:99999:7:::\n")  # sshd refuses a locked account
        home = os.path.expanduser("~root/.ssh")
        if os.path.isdir(home):
            disks.mount(self.case, pathlib.Path(home), "-t", "tmpfs", "ssh")

    def cover(self, path, text):
        """A file in the place of another."""
        own = self.folder / path.strip("/").replace("/", ".")
        own.write_text(text)
        disks.call("mount", "--bind", own, path)
        self.case.undo.append(lambda: disks.unmount(path))

    def make_keys(self):
        """Of the user and of each host."""
        known = []
        for name in ("user", *ADDRESSES):
            disks.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / f"{name}.key")
            public = (self.folder / f"{name}.key.pub").read_text()
            if name == "user":
                (self.folder / "authorized_keys").write_text(public)
            else:
                known.append(f"{name},{ADDRESSES[name]} {public}")
        (self.folder / "known_hosts").write_text("".join(known))

    def restart_host(self, name, before):
        """Its sshd, and with it all that it starts, behind these words."""
        self.holders[name].kill()
        self.holders[name].wait()
        self.start_host(name, before)
        jobs.eventually(jobs.PATIENCE_S, lambda: self.answers(name))

    def start_host(self, name, before=()):
        """Namespaces of a host's name and mounts, its own /dev/shm, and sshd as their holder."""
        mark = f"{isolation.MARK}={self.case.settings.scratch} OMP_NUM_THREADS=1"
        conf = self.folder / f"{name}.sshd"
        conf.write_text(SSHD.format(address=ADDRESSES[name], folder=self.folder, name=name, mark=mark))
        os.makedirs("/run/sshd", exist_ok=True)
        script = 'hostname "$0"; mount -t tmpfs shm /dev/shm; exec "$@"'
        words = ["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "sh", "-ec", script, name]
        sshd = shutil.which("sshd", path=search_path())
        self.holders[name] = self.start_daemon([*words, *before, sshd, "-D", "-e", "-f", str(conf)], name)

    def start_daemon(self, words, name):
        """A process in the background whose words go to a file."""
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "PATH": search_path()}, preexec_fn=isolation.die_with_parent,
            )

    def on(self, name, *words):
        """These words as a process of a host."""
        pid = self.holders[name].pid
        spaces = [f"--{kind}=/proc/{pid}/ns/{file}" for kind, file in (("uts", "uts"), ("mount", "mnt"))]
        return ["nsenter", f"--net=/run/netns/{name}", *spaces, "--wdns=" + os.getcwd(), *map(str, words)]

    def answers(self, name):
        """Whether `ssh NAME` works from the other host."""
        other = next(host for host in ADDRESSES if host != name)
        done = subprocess.run(self.on(other, "ssh", name, "true"), capture_output=True)
        return done.returncode == 0

    def need_slurm(self):
        """Starts Slurm once; skips where it is not installed."""
        if not self.environment:
            require("munged", "slurmctld", "slurmd", "srun", "sbatch")
            self.start_slurm()

    def start_slurm(self):
        """munged, slurmctld and a slurmd on each host."""
        folder = self.folder
        for name in ("state", *(f"spool.{host}" for host in ADDRESSES)):
            (folder / name).mkdir()
        # munged wants a folder that everybody may enter, which the family's scratch is not.
        munge = pathlib.Path("/run/munge")
        munge.mkdir(mode=0o711, exist_ok=True)
        (folder / "slurm.conf").write_text(SLURM.format(folder=folder, munge=munge))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.environment["SLURM_CONF"] = str(folder / "slurm.conf")
        os.environ.update(self.environment)
        files = [f"--{kind}={munge}/{file}" for kind, file in (
            ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed"),
            ("log-file", "log"))]
        self.start_daemon(self.on("hosta", "munged", "--foreground", "--num-threads=2", *files), "munged")
        jobs.eventually(jobs.PATIENCE_S, (munge / "socket").exists)
        self.start_daemon(self.on("hosta", "slurmctld", "-D"), "slurmctld")
        for name in ADDRESSES:
            self.start_daemon(self.on(name, "slurmd", "-D"), f"slurmd.{name}")
        jobs.eventually(jobs.PATIENCE_S, lambda: self.asked("sinfo", "-h", "-o", "%D %T") == "2 idle", 0.1)

    def asked(self, *words):
        """What a command on the first host answers."""
        done = subprocess.run(self.on("hosta", *words), capture_output=True, text=True)
        return done.stdout.strip()

    def end(self):
        """No process stays in the network of a host."""
        for name in self.environment:
            os.environ.pop(name, None)
        while alive := of_hosts():
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for holder in self.holders.values():
                holder.poll()
            jobs.eventually(0.05, lambda: not of_hosts())


def search_path():
    """Where daemons are, too."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def require(*programs):
    """Skips where one is missing."""
    missing = [name for name in programs if not shutil.which(name, path=search_path())]
    if missing:
        raise suite.Skipped(f"not installed: {', '.join(missing)}")
