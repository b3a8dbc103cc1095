"""One cache, many processes: killed in the middle of a download, and twenty at once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.downloads.conftest import Place

from gpustack import resources
from gpustack.install.supply.cache import key_of
from gpustack.model.steps import Artifact

FETCH = """
import sys, msgspec
from gpustack.install.supply.cache import Cache
from gpustack.install.supply.downloads import Fetcher, fetch_all
from gpustack.model.steps import Artifact
wanted = msgspec.json.decode(sys.argv[2], type=tuple[Artifact, ...])
found = fetch_all(wanted, Fetcher(Cache(__import__("pathlib").Path(sys.argv[1])), mirrors={}), lambda name, size: lambda done, total: None)
for path in found.values():
    print(path)
# The peak of this program alone: getrusage would count what the process was before it became this program.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def start(place: Place, *artifacts: Artifact, front: Sequence[str] = ()) -> subprocess.Popen[str]:
    command = [*front, sys.executable, "-c", FETCH, str(place.cache.folder), msgspec.json.encode(artifacts).decode()]
    environment = {**os.environ, "PYTHONPATH": str(resources.folder("matrices").parent / "src")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def until_there(path: Path, size: int) -> None:
    end = time.monotonic() + 300
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def test_a_killed_download_is_gone_on_with(place: Place) -> None:
    artifact = place.offer()
    place.files.faults = ["wait"]
    process = start(place, artifact)
    part = place.cache.part(key_of(artifact.url, artifact.sha256))
    assert place.files.halfway.wait(60)
    until_there(part, 1_000_000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    place.files.go_on.set()
    kept = part.stat().st_size
    assert not place.whole_files()
    assert place.is_right(place.fetch(artifact))
    assert [wanted for _, wanted in place.files.asked] == ["", f"bytes={kept}-"]


def test_twenty_processes_share_one_cache(place: Place) -> None:
    artifacts = [place.offer(f"{name}.tar", 500_000) for name in ("a", "b", "c")]
    processes = [start(place, *artifacts) for _ in range(20)]
    told = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 20, told
    assert len({out.rpartition("\n")[0].rpartition("\n")[0] for out, _ in told}) == 1
    assert sorted(path.name for path in place.whole_files()) == sorted(one.sha256 for one in artifacts)
    assert all(place.is_right(place.fetch(one), name_of(one)) for one in artifacts)
    assert sorted(path for path, _ in place.files.asked) == ["/a.tar", "/b.tar", "/c.tar"]
    assert not place.parts()


def test_memory_stays_below_sixty_megabytes(place: Place) -> None:
    artifacts = [place.offer(f"{number}.tar", 20_000_000) for number in range(4)]
    out, err = start(place, *artifacts).communicate(timeout=120)
    assert int(out.split()[-1]) < 60 * 1024, err


def name_of(artifact: Artifact) -> str:
    return artifact.path.rpartition("/")[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
@pytest.mark.parametrize(
    ("options", "fault", "why"),
    [
        (
            "size=2m",
            "",
            r"2\.9 MiB more are needed, and only 1\.9 MiB may be used: 0\.1 MiB of the file system are kept",
        ),
        ("size=2m", "no length", r"0\.\d MiB more are needed, and only 0\.\d MiB may be used: 0\.1 MiB of the file"),
        ("ro", "", "Read-only file system"),
    ],
)
def test_a_disk_that_takes_nothing_is_told(options: str, fault: str, why: str, place: Place) -> None:
    artifact = place.offer(known=not fault)
    place.files.faults = [fault]
    place.cache.folder.mkdir()
    mounted = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    mounted += [f'mount -t tmpfs -o {options} tmpfs "$0" && exec "$@"', str(place.cache.folder)]
    _, err = start(place, artifact, front=mounted).communicate(timeout=60)
    assert re.search(why, err), err
    assert place.is_right(place.fetch(artifact))
