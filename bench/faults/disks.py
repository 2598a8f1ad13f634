"""Data folders on file systems of their own, small enough to be filled."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from .network import run

# A manager refuses new jobs below 128 MiB of free space and holds 64 MiB in reserve; a worker needs little.
MANAGER_MIB = 640
WORKER_MIB = 96
FILLER = "filler"


class Disks:
    """Mounts below one folder; what is in them is gone with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        unmount_below(folder)

    def mount(self, name: str) -> Path:
        place = self.folder / name
        place.mkdir(parents=True, exist_ok=True)
        size = MANAGER_MIB if name.startswith("m") else WORKER_MIB
        run("mount", "-t", "tmpfs", "-o", f"size={size}m,mode=700", "volley-faults", str(place))
        return place

    def fill(self, name: str) -> None:
        """Not a byte is left."""
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
        unmount_below(self.folder)


def unmount_below(folder: Path) -> None:
    with open("/proc/self/mounts") as mounts:
        places = [line.split()[1] for line in mounts]
    for place in places:
        if place.startswith(f"{folder}{os.sep}"):
            run("umount", "-l", place, check=False)
