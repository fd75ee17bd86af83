"""What a run says and leaves about its checkpoints."""

import array
import json
import re
import struct

SAVED = re.compile(r"^saved \S*/global_step(\d+)$", re.MULTILINE)
# A fault that came too late leaves nothing to train.
RESUMING = re.compile(
    r"^(?:resuming at step|nothing to train: the checkpoint is of step) (\d+)\b", re.MULTILINE
)
STEP = re.compile(r"^step (\d+)/", re.MULTILINE)


def last_number(pattern, text, absent=0):
    """Of the last match."""
    found = pattern.findall(text)
    return int(found[-1]) if found else absent


def printed_step(job):
    """The last step that rank 0 printed."""
    return last_number(STEP, job.out())


def resumed_at(job):
    """Where this start began: 0 for a fresh one."""
    return last_number(RESUMING, job.out())


def promised(job):
    """The newest checkpoint that was said to be saved."""
    return last_number(SAVED, job.out())


def listed(output):
    """Steps of checkpoint folders, in order."""
    names = [path.name for path in output.glob("global_step*") if path.is_dir()]
    return sorted(int(name.removeprefix("global_step")) for name in names)


def files_of(folder):
    """Files of a checkpoint, in order."""
    return sorted(path for path in folder.iterdir() if path.is_file())


def leftovers(output):
    """Temporary entries of a save that was cut short."""
    return sorted(path.name for path in output.glob(".tmp-*"))


def not_finite(path):
    """Names of tensors of a safetensors file that hold NaN or Inf; fp32 only."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    broken = []
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        numbers = array.array("f", data[begin:end])
        if any(number - number != 0 for number in numbers):
            broken.append(name)
    return broken


def not_finite_below(folder):
    """The same of every safetensors file below a folder."""
    paths = sorted(folder.rglob("*.safetensors"))
    return [f"{path.name}: {name}" for path in paths for name in not_finite(path)]


def names_in(path):
    """Tensors of a safetensors file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return [name for name in json.loads(file.read(length)) if name != "__metadata__"]
