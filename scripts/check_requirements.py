"""check_requirements.py FILE: exit 0 when this Python has every `name==version` line of FILE."""

import importlib.metadata
import sys


def installed(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def main():
    with open(sys.argv[1]) as lines:
        pins = [line.split("==") for line in map(str.strip, lines) if line and line[0] != "#"]
    sys.exit(any((installed(name) or "").split("+")[0] != version for name, version in pins))


if __name__ == "__main__":
    main()
