"""Kill an update before each of its writes: a program of its own, because it forks.

    kill_points.py FACTS REPO ROOT

For each point it copies FACTS, kills an update there, and prints the releases of CUDA that a later process reads
and those after one more update.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpustack.matrix.feed.client import update
from gpustack.matrix.index import load_matrix

CHANGES = {"os.rename", "os.symlink", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "os.link"}
"""What changes a file system, besides files that are opened for writing."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die_at(point: int) -> None:
    """Have this process end as if killed before its change number ``point`` of the file system."""
    seen = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            seen += 1
            if seen == point:
                os._exit(137)

    sys.addaudithook(watch)


def main(facts: Path, repo: str, root: Path) -> None:
    """In memory, if there is such a folder: each update waits for the disk dozens of times."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)  # noqa: S108
    try:
        kill_everywhere(facts, repo, root, Path(folder) / "facts")
    finally:
        shutil.rmtree(folder)


def kill_everywhere(facts: Path, repo: str, root: Path, work: Path) -> None:
    os.environ["GPUSTACK_FACTS"] = str(work)
    point, is_killed = 0, True
    while is_killed:
        point += 1
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(facts, work, symlinks=True)
        child = os.fork()
        if child == 0:
            die_at(point)
            update(work, repo, root)
            os._exit(0)
        is_killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137
        left = releases()
        update(work, repo, root)
        sys.stdout.write(json.dumps({"killed": is_killed, "left": left, "after": releases()}) + "\n")
        sys.stdout.flush()


def releases() -> list[str]:
    return [row.version for row in load_matrix().releases("cuda")]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
