"""Results of single runs, one JSON file each, named by a hash of everything they depend on."""

import hashlib
import json
import os


def digest(key):
    """Twelve hexadecimal digits that stand for a key."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_json(path, value, indent=1):
    """Writes the whole file or nothing."""
    temporary = f"{path}.partial"
    with open(temporary, "w") as file:
        json.dump(value, file, indent=indent)
        file.write("\n")
    os.replace(temporary, path)


class Store:
    """The folder of finished runs."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def path(self, key):
        """Readable beginning, then the hash."""
        name = "-".join(str(key[word]) for word in ("workload", "side", "zero", "role"))
        return os.path.join(self.folder, f"{name}-{digest(key)}.json")

    def load(self, key):
        """The record of a run, None when it was not run."""
        path = self.path(key)
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return json.load(file)["record"]

    def save(self, key, record):
        """Keeps a record with its key."""
        write_json(self.path(key), {"key": key, "record": record})

    def forget(self, key):
        """The run will be done again."""
        if os.path.exists(self.path(key)):
            os.remove(self.path(key))
