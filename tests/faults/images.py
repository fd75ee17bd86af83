"""Recipes of images, which no test builds: their packages are there and enough, and the paths that
they use are those of the repository and of an installed tree."""

import os
import re
import subprocess

import manifests
import suite

ROOT = manifests.ROOT
RECIPES = ("Dockerfile", "fmengine.def")
PREFIX = "/opt/fmengine"
BASE = {"libc6", "libgcc-s1"}  # in every image of Debian
# What the examples start, and the package that has it.
STARTERS = {"mpirun": "openmpi-bin", "ssh": "openssh-client", "sshd": "openssh-server",
            "pdsh": "pdsh", "srun": "slurm-client", "curl": "curl", "openssl": "openssl"}


def text_of(name):
    """A recipe with its long lines joined, without its head."""
    text = (ROOT / "examples" / name).read_text().replace("\\\n", " ")
    return re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)


def packages(name):
    """Those of the image that is kept."""
    found = re.findall(r"apt-get install (.*?)&&", text_of(name))
    return [word for line in found for word in line.split() if not word.startswith("-")]


def answer(*words):
    """What a program of Debian prints."""
    return subprocess.run(words, capture_output=True, text=True).stdout


def linked(build):
    """Names of the libraries that the programs link."""
    programs = [build / f"fmengine-{name}" for name in ("train", "run", "launch", "tokenize")]
    return set(re.findall(r"^\s+(\S+\.so\.\S+) => /", answer("ldd", *programs), re.MULTILINE))


def agree(case):
    """Both recipes make the same image out of what is here."""
    case.expect(packages("Dockerfile") == packages("fmengine.def"), "both install the same packages")
    missing = [name for name in STARTERS.values() if name not in packages("Dockerfile")]
    case.expect(not missing, f"not installed: {missing}")
    table = (ROOT / "docs/install.md").read_text().partition("| package |")[2]
    for row in re.findall(r"^\| ([a-z0-9+, -]+) \| `", table, re.MULTILINE):
        for name in row.split(", "):
            case.expect(name in packages("Dockerfile"), f"docs/install.md needs {name}")
    for name in RECIPES:
        text = text_of(name)
        for script in re.findall(r"\./(scripts/\S+)", text):
            case.expect(os.access(ROOT / script, os.X_OK), f"{name}: {script} must be there")
        for path in re.findall(r"/src/(\w+)", text):
            case.expect((ROOT / path).exists(), f"{name}: {path} must be there")
        case.expect(f"--install build --prefix {PREFIX}" in text, f"{name} must install to {PREFIX}")
        case.expect(f"{PREFIX} {PREFIX}" in text, f"{name} must copy {PREFIX}")
        case.expect(f"PATH={PREFIX}/bin:" in text, f"{name} must name the programs' folder")


def layout(case):
    """An installed tree has the folders that recipes and manifests name."""
    rules = "".join(path.read_text() for path in case.settings.build.glob("*/cmake_install.cmake"))
    if not rules:
        raise suite.Skipped(f"no rules of an install in {case.settings.build}")
    for folder, what in (("bin", "fmengine-train"), ("bin", "fmengine-launch"), ("share/fmengine", "configs")):
        rule = rf'DESTINATION "\$\{{CMAKE_INSTALL_PREFIX\}}/{folder}"[^)]*/{what}"'
        case.expect(re.search(rule, rules), f"{what} must go to {folder}")
    case.expect(manifests.CONFIGS == f"{PREFIX}/share/fmengine/configs", manifests.CONFIGS)


def available(case):
    """Debian has every package, and every library that a program links is in one of them."""
    wanted = packages("Dockerfile")
    if "Package:" not in answer("apt-cache", "show", "--no-all-versions", "libc6"):
        raise suite.Skipped("no lists of Debian's packages (apt-get update)")
    there = set(re.findall(r"^Package: (\S+)", answer("apt-cache", "show", *wanted), re.MULTILINE))
    case.expect(set(wanted) <= there, f"Debian has no {set(wanted) - there}")
    libraries = linked(case.settings.build)
    case.expect("libonig.so.5" in libraries, f"ldd names the libraries of the programs: {libraries}")
    for library in libraries:
        owners = set(re.findall(r"^([^:, ]+)", answer("dpkg", "-S", f"*/{library}"), re.MULTILINE))
        case.expect(not owners or owners & (set(wanted) | BASE), f"{library} is in {owners}")


def run(suite):
    """All cases."""
    suite.case("Dockerfile, fmengine.def/agree", agree)
    suite.case("Dockerfile, fmengine.def/layout", layout)
    suite.case("Dockerfile, fmengine.def/packages", available)
