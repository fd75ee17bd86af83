"""collect_corpus.py OUT LIMIT_KB FOLDER...: C++ headers as JSONL, one {"text": ...} per file.

Headers above LIMIT_KB are left out: a minute of training learns short declarations, not long
tables. So are files that are no UTF-8. The order depends on the paths inside the folders only, so
every machine gets the same text from the same packages.
"""

import hashlib
import json
import os
import sys


def headers_below(folder):
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            name, suffix = os.path.splitext(file)
            # Headers of the standard library have no suffix.
            if suffix in (".h", ".hpp", ".tcc") or (not suffix and "c++" in folder):
                path = os.path.join(parent, file)
                yield hashlib.sha256(os.path.relpath(path, folder).encode()).hexdigest(), path


def documents(folders):
    paths = sorted(entry for folder in folders for entry in headers_below(folder))
    for _, path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                yield file.read()
        except UnicodeDecodeError:
            continue


def main():
    out, limit = sys.argv[1], int(sys.argv[2]) * 1_000
    written = count = 0
    with open(out + ".part", "w", encoding="utf-8") as file:
        for text in documents(sys.argv[3:]):
            if len(text) > limit:
                continue
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            written += len(text)
            count += 1
    os.replace(out + ".part", out)
    print(f"corpus: {count} C++ headers, {written / 1e6:.1f} MB in {out}")


if __name__ == "__main__":
    main()
