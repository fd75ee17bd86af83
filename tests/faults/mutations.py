"""Changes of good input files, drawn by a random generator."""

import copy
import json
import struct

ODD_VALUES = (
    None, True, False, 0, 1, -1, 2, 0.5, 1e-300, 1e308, 2**31, 2**63, -(2**63), 10**30,
    "", "x", "auto", "1", "\u0000", "é" * 50, [], [1], [None] * 3, {}, {"x": 1}, [[[]]],
)
ODD_TEXTS = ("NaN", "Infinity", "-Infinity", "1e999", "01", "+1", "0x10", "1e", "nul", "'x'", "{")


def paths_of(value, path=()):
    """Every place in a JSON value below its root."""
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return []
    found = []
    for key, inner in pairs:
        found += [(*path, key), *paths_of(inner, (*path, key))]
    return found


def holder_of(value, path):
    """The object or list that holds the last word of a path."""
    for key in path[:-1]:
        value = value[key]
    return value


def set_odd(rng, value):
    """One value becomes another one, of any type."""
    path = rng.choice(paths_of(value))
    holder_of(value, path)[path[-1]] = rng.choice(ODD_VALUES)
    return json.dumps(value)


def set_odd_text(rng, value):
    """One value becomes something that is hardly JSON."""
    path = rng.choice(paths_of(value))
    holder_of(value, path)[path[-1]] = "@@"
    return json.dumps(value).replace('"@@"', rng.choice(ODD_TEXTS), 1)


def drop_key(rng, value):
    """One entry is missing."""
    path = rng.choice(paths_of(value))
    del holder_of(value, path)[path[-1]]
    return json.dumps(value)


def rename_key(rng, value):
    """One key has a letter too many, too few, or another one."""
    path = rng.choice([path for path in paths_of(value) if isinstance(path[-1], str)])
    holder = holder_of(value, path)
    name = path[-1]
    at = rng.randrange(len(name))
    letter = rng.choice(["", "x", name[at] * 2, ".", " ", "\u0000"])
    holder[name[:at] + letter + name[at + 1 :]] = holder.pop(name)
    return json.dumps(value)


def repeat_key(rng, value):
    """One key of the root is there twice, with an odd value."""
    key = rng.choice(list(value))
    entry = json.dumps({key: rng.choice(ODD_VALUES)})[1:-1]
    return json.dumps(value)[:-1] + ", " + entry + "}"


def deepen(rng, value):
    """One value lies in very many brackets."""
    path = rng.choice(paths_of(value))
    holder_of(value, path)[path[-1]] = "@@"
    depth = rng.choice([100, 1000, 100_000])
    return json.dumps(value).replace('"@@"', "[" * depth + "]" * depth, 1)


def change_json(rng, value):
    """Bytes of a JSON value with one change of its content or of its text."""
    value = copy.deepcopy(value)
    change = rng.choice((set_odd, set_odd, set_odd_text, drop_key, rename_key, repeat_key, deepen,
                         None, None))
    if change is None:
        return change_bytes(rng, json.dumps(value, indent=1).encode())
    return change(rng, value).encode()


def overwrite(rng, data, begin, end):
    """Random bytes in place of a range."""
    data[begin:end] = rng.randbytes(end - begin)


def insert(rng, data, begin, end):
    """Random bytes between."""
    data[begin:begin] = rng.randbytes(rng.randint(1, 20))


def remove(rng, data, begin, end):
    """A range is gone."""
    del data[begin:end]


def double(rng, data, begin, end):
    """A range is there twice."""
    data[begin:begin] = data[begin:end]


def cut(rng, data, begin, end):
    """The end is gone."""
    del data[begin:]


def flip(rng, data, begin, end):
    """One bit."""
    data[begin] ^= 1 << rng.randrange(8)


def clear(rng, data, begin, end):
    """Zeros in place of a range."""
    data[begin:end] = bytes(end - begin)


BYTE_CHANGES = (overwrite, insert, remove, double, cut, flip, clear)


def change_bytes(rng, data):
    """Bytes with one to three changes anywhere."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if not data:
            break
        begin = rng.randrange(len(data))
        end = min(len(data), begin + rng.choice([1, 1, 4, 30, 400]))
        rng.choice(BYTE_CHANGES)(rng, data, begin, end)
    return bytes(data)


def change_safetensors(rng, data):
    """A safetensors file with a changed length, header or end."""
    (length,) = struct.unpack("<Q", data[:8])
    header, numbers = data[8 : 8 + length], data[8 + length :]
    kind = rng.randrange(5)
    if kind == 0:
        odd = rng.choice([0, 1, length - 1, length + 1, len(data), 2**31, 2**63, 2**64 - 1])
        return struct.pack("<Q", odd) + header + numbers
    if kind == 1:
        return data[: rng.randrange(len(data))]
    if kind == 2:
        return data + rng.randbytes(rng.randint(1, 100))
    header = change_bytes(rng, header) if kind == 3 else change_json(rng, json.loads(header))
    return struct.pack("<Q", len(header)) + header + numbers


def change_tokens(rng, data):
    """int32 ids with some that are none, or with another length."""
    kind = rng.randrange(4)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        return change_bytes(rng, data)
    changed = bytearray(data)
    for _ in range(rng.randint(1, 50)):
        at = 4 * rng.randrange(len(data) // 4)
        odd = rng.choice([300, 301, -1, -100, 2**31 - 1, -(2**31), rng.randrange(300)])
        changed[at : at + 4] = struct.pack("<i", odd)
    return bytes(changed) + (b"\x01" if kind == 2 else b"")
