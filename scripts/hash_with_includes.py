#!/usr/bin/env python3
"""hash_with_includes.py SOURCE...: a line `hash source` each, from the repository's root.

The hash covers the source and every header of the repository that it includes, directly or not, but
no path outside of the repository and no place on the disk: the same in every clone.
"""
import functools
import hashlib
import pathlib
import re
import sys

INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@functools.cache
def text_of(path):
    """The bytes of a file of the repository, or None."""
    return path.read_bytes() if path.is_file() else None


@functools.cache
def included_by(path):
    """Headers that `path` names: relative to the root, else beside it."""
    names = [name.decode() for name in INCLUDE.findall(text_of(path))]
    found = (pathlib.Path(name) if text_of(pathlib.Path(name)) else path.parent / name for name in names)
    return tuple(header for header in found if text_of(header) is not None)


def closure_of(source):
    """`source` and all that it includes, sorted."""
    seen, waiting = set(), [source]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting.extend(included_by(path))
    return sorted(seen)


def main():
    """Prints the lines."""
    for name in sys.argv[1:]:
        digest = hashlib.sha256()
        for path in closure_of(pathlib.Path(name)):
            digest.update(f"{path} {len(text_of(path))}\n".encode() + text_of(path))
        print(digest.hexdigest()[:32], name)


main()
