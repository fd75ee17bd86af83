"""What the report says about this machine."""

import os
import platform
import re
import subprocess

VECTOR_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "asimd", "sve")


def cpu_field(text, *names):
    """First value of any of the fields in the text of /proc/cpuinfo."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def first_line(command):
    """First line that a program prints, "" when it is absent."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.split("\n", 1)[0].strip()


def describe():
    """CPU, its vector instructions, cores, memory, system."""
    with open("/proc/cpuinfo") as file:
        text = file.read()
    with open("/proc/meminfo") as file:
        memory_kb = int(re.search(r"MemTotal:\s+(\d+)", file.read()).group(1))
    flags = cpu_field(text, "flags", "Features").split()
    numbers = [cpu_field(text, name) for name in ("cpu family", "model", "stepping")]
    return {
        "cpu": cpu_field(text, "model name") or platform.machine(),
        "family_model_stepping": "/".join(numbers),
        "vector": [flag for flag in VECTOR_FLAGS if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kb / 2**20, 1),
        "kernel": platform.release(),
        "mpirun": first_line(["mpirun", "--version"]),
        "python": platform.python_version(),
    }


def slug(text):
    """Lower-case words of a CPU's name, for a file name."""
    text = re.sub(r"\((r|tm)\)", " ", text.lower())
    text = re.sub(r"\b(cpu|processor|with .*|@ .*)", " ", text)
    return "-".join(re.findall(r"[a-z0-9]+", text)) or "unknown"


def short_name(described):
    """For files: CPUs of different generations may have one name ("AMD EPYC"), so family and model follow."""
    family, model, _ = described["family_model_stepping"].split("/")
    return "-".join([slug(described["cpu"]), *(number for number in (family, model) if number)])


def without_places(text, places):
    """Replaces folders by names, inner folders first: a report names no machine's places."""
    for place in sorted(places, key=len, reverse=True):
        if len(place) > 1:
            text = text.replace(place, places[place])
    return text
