"""unpack_libtorch.py FOLDER WHEEL...: unpacks what a C++ CPU build links, and nothing else."""

import sys
import zipfile

WANTED_FOLDER = "torch/include/"
# libtorch_cpu.so needs the other four; they are found through its RPATH ($ORIGIN and
# $ORIGIN/../../nvidia/cu13/lib), so the layout of site-packages is kept.
WANTED_FILES = (
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libc10.so",
    "torch/lib/libgomp.so.1",
    "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
)


def is_wanted(name):
    return name in WANTED_FILES or name.startswith(WANTED_FOLDER)


def main():
    folder, wheels = sys.argv[1], sys.argv[2:]
    found = set()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if is_wanted(name)]
            archive.extractall(folder, names)
            found.update(names)
    absent = [name for name in WANTED_FILES if name not in found]
    if absent:
        sys.exit(f"the wheels must hold {', '.join(WANTED_FILES)}; absent: {', '.join(absent)}")


if __name__ == "__main__":
    main()
