"""Data folders: on the machine's disk, or on file systems of their own that are small enough to be filled.

A small one is in memory, where a flush costs nothing. Handovers look different then, so only runs that fill disks use
it.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from .network import run

# A manager refuses new jobs below 128 MiB of free space and holds 64 MiB in reserve; a worker needs little.
MANAGER_MIB = 640
WORKER_MIB = 96
FILLER = "filler"


class Disks:
    """A folder for each node below one folder; what is in them is gone at the end."""

    def __init__(self, folder: Path, small: bool) -> None:
        self.folder, self.small = folder, small
        unmount_below(folder)

    def make(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        if not self.small:
            return place
        size = MANAGER_MIB if name.startswith("m") else WORKER_MIB
        run("mount", "-t", "tmpfs", "-o", f"size={size}m,mode=700", "volley-faults", str(place))
        return place

    def fill(self, name: str) -> None:
        """Not a byte is left."""
        assert self.small, "the machine's own disk is never filled"
        with open(self.folder / name / FILLER, "wb", buffering=0) as file:
            for piece in (8 << 20, 1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(b"\0" * piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def empty(self, name: str) -> None:
        (self.folder / name / FILLER).unlink(missing_ok=True)

    def close(self) -> None:
        """A manager's log takes 130 MB."""
        unmount_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def unmount_below(folder: Path) -> None:
    with open("/proc/self/mounts") as mounts:
        places = [line.split()[1] for line in mounts]
    for place in places:
        if place.startswith(f"{folder}{os.sep}"):
            run("umount", "-l", place, check=False)
