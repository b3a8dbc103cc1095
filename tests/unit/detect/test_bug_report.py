"""Hosts of which only NVIDIA's bug report is at hand: cut from real reports, without names and serial numbers.

https://github.com/Trourest186/Serverless-Computing-Final, https://github.com/blacksoil/BashCommands,
https://github.com/srinivasgln/nvidia-errors-srini and https://github.com/duaneya/tool_man have the whole ones.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from gpustack.detect.api import detect
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host

REPORTS = Path(__file__).parents[2] / "fixtures" / "bug-reports"

HOSTS = {
    "api-mismatch": ("ubuntu22.04", "5.15.0-46-generic", "515.65.01", ["GeForce RTX 2080 Ti"]),
    "fell-off-the-bus": ("arch", "4.16.10-1-ARCH", "396.24", ["GeForce 840M"]),
    "no-display": ("ubuntu18.04", "5.0.0-36-generic", "440.31", ["GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"]),
    "two-releases": ("ubuntu16.04", "4.15.0-112-generic", "418.152.00", ["Quadro P3200 Mobile"]),
}

CAUSES = {
    "api-mismatch": [
        "the loaded kernel module is 515.65.01, a program's library is 525.125.06 (newer)",
        "the USB-C controller on the GPU does not answer",
    ],
    "fell-off-the-bus": [
        "GPU is lost.  Reboot the system to recover this GPU: a GPU fell off the bus",
        "Xid 79 at 0000:04:00: the GPU fell off the bus",
        "bbswitch: device 0000:04:00.0 is in use by driver 'nvidia'",
        "NVIDIA has no package repository for Arch Linux",
    ],
    "no-display": [
        "X found the GPU and could not use it",
        "Ubuntu 18.04 reached its end of life",
        "X found no GPU that it can drive",
        "X has nothing to show its screen on: no display is attached to this GPU",
    ],
    "two-releases": [
        "libnvidia-ml.so.1 is missing",
        "the modules nvidia and nvidia-modeset on disk are of two releases",
        "nvidia_modeset and nvidia_drm are of two releases",
        "Ubuntu 16.04 reached its end of life",
        "the kernel's command line has nomodeset",
    ],
}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _system(host: Host) -> str:
    return f"{host.os.id}{host.os.version_id or ''}"


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_a_report_tells_the_host(name: str, matrix: Matrix) -> None:
    host = detect(REPORTS / f"{name}.log", matrix)
    system, kernel, driver, gpus = HOSTS[name]
    assert (_system(host), host.kernel) == (system, kernel)
    assert (host.installed["driver"].version, [gpu.name for gpu in host.gpus]) == (driver, gpus)
    assert host.arch == "x86_64"


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_a_report_names_the_cause_and_nothing_that_is_merely_not_in_it(name: str, matrix: Matrix) -> None:
    found = [one.message for one in detect(REPORTS / f"{name}.log", matrix).problems]
    assert len(found) == len(CAUSES[name]), found
    for message, cause in zip(found, CAUSES[name], strict=True):
        assert cause in message


def test_the_driver_tells_names_and_memory(matrix: Matrix) -> None:
    first, second = detect(REPORTS / "no-display.log", matrix).gpus
    assert (first.memory_mib, first.bus_id, second.bus_id) == (11019, "0000:02:00.0", "0000:84:00.0")


def test_a_packed_report_is_of_many_parts(matrix: Matrix, tmp_path: Path) -> None:
    """The script packs each section by itself and appends it."""
    text = (REPORTS / "api-mismatch.log").read_text(encoding="utf-8")
    packed = tmp_path / "nvidia-bug-report.log.gz"
    head, *rest = text.split("____________________________________________\n")
    parts = [head, *(f"____________________________________________\n{one}" for one in rest)]
    start = "".join(parts[:2])
    packed.write_bytes(b"".join(gzip.compress(one.encode()) for one in (start, *parts[2:])))
    assert detect(packed, matrix) == detect(REPORTS / "api-mismatch.log", matrix)


def test_a_packed_report_that_ends_early_is_read_to_its_end(matrix: Matrix, tmp_path: Path) -> None:
    packed = tmp_path / "nvidia-bug-report.log.gz"
    whole = b"".join(gzip.compress(part) for part in _halves((REPORTS / "fell-off-the-bus.log").read_bytes()))
    packed.write_bytes(whole[:-40])
    assert _system(detect(packed, matrix)) == "arch"


def _halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def test_units_are_as_systemd_told_and_unknown_where_it_did_not(matrix: Matrix, tmp_path: Path) -> None:
    told = (REPORTS / "api-mismatch.log").read_text(encoding="utf-8")
    keeping = told.replace("PreserveVideoMemoryAllocations: 0", "PreserveVideoMemoryAllocations: 1")
    enabled = "nvidia-suspend.service; enabled"
    assert keeping != told
    assert enabled in keeping

    def suspend(text: str) -> list[str]:
        report = tmp_path / "report.log"
        report.write_text(text, encoding="utf-8")
        return [one.message for one in detect(report, matrix).problems if "suspend" in one.id]

    silent = "\n".join(line for line in keeping.splitlines() if "Loaded: loaded" not in line)
    assert not suspend(silent)
    assert not suspend(keeping)
    (message,) = suspend(keeping.replace(enabled, "nvidia-suspend.service; disabled"))
    assert "nvidia-suspend.service is not enabled" in message


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_a_damaged_report_is_survived(name: str, matrix: Matrix, tmp_path: Path) -> None:
    drawn = random.Random(name)  # noqa: S311
    lines = (REPORTS / f"{name}.log").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "report.log"
    for _ in range(25):
        few = [line[: drawn.choice((1, 5, 20, 999))] if drawn.random() < 0.1 else line for line in lines[6:]]
        few = drawn.sample(few, drawn.randrange(len(few)))
        path.write_text("\n".join((*lines[:6], *few)), encoding="utf-8")
        assert detect(path, matrix).gpus is not None
