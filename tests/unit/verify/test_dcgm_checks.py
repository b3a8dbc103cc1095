"""DCGM as a component: its version against the driver by the real facts, and what its host engine lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host, Installed
from gpustack.model.results import CheckResult
from gpustack.system.run import LocalRunner
from gpustack.verify.dcgm.quick import no_dcgm
from gpustack.verify.declare import Context
from gpustack.verify.frame.runner import run_checks

Ask = Callable[..., dict[str, CheckResult]]


@pytest.fixture
def ask(healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The checks of DCGM on a host with it, whose `dcgmi discovery -l` gives this answer."""

    def run(said: str = "", code: int = 0, *, version: str | None = "4.7.0", gpus: int = 2) -> dict[str, CheckResult]:
        (tmp_path / "answer").write_text(said)
        program = tmp_path / "dcgmi"
        program.write_text(f"#!/bin/sh\n[ \"$*\" = 'discovery -l' ] || exit 9\ncat {tmp_path}/answer\nexit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        installed = {**healthy.installed, **({"dcgm": Installed(version=version)} if version != "" else {})}
        host = msgspec.structs.replace(healthy, installed=installed, gpus=healthy.gpus * gpus)
        context = Context(host=host, matrix=load_matrix(), runner=LocalRunner())
        return {one.id: one for one in run_checks(("dcgm",), "smoke", context)}

    return run


TABLE = "2 GPUs found.\n+--------+----------------------------+\n| GPU ID | Device Information |\n"


def test_a_dcgm_that_lists_every_gpu(ask: Ask) -> None:
    found = ask(TABLE)
    assert [(name, one.status) for name, one in found.items()] == [
        ("dcgm.found", "pass"),
        ("dcgm.fit", "pass"),
        ("dcgm.discovery", "pass"),
    ]
    assert found["dcgm.found"].detail == "4.7.0"
    assert found["dcgm.fit"].detail.startswith("DCGM 4.7.0 is compatible with driver 550.54.15, L4 ")
    assert found["dcgm.discovery"].detail == "the host engine lists 2 GPUs"
    assert ask("1 GPU found.\n", gpus=1)["dcgm.discovery"].detail == "the host engine lists 1 GPU"


def test_a_dcgm_that_misses_one(ask: Ask) -> None:
    one = ask(TABLE, gpus=3)["dcgm.discovery"]
    assert (one.status, one.reason, one.fix) == (
        "fail",
        "DCGM lists 2 of 3 GPUs",
        "`sudo systemctl restart nvidia-dcgm`: the host engine sees the GPUs that were there when it started",
    )


def test_a_dcgm_whose_engine_does_not_run(ask: Ask) -> None:
    one = ask("Error: unable to establish a connection to the specified host: localhost\n", 235)["dcgm.discovery"]
    assert (one.status, one.reason, one.fix) == (
        "fail",
        "DCGM lists no GPU: Error: unable to establish a connection to the specified host: localhost",
        "`sudo systemctl start nvidia-dcgm`; its log: `journalctl -u nvidia-dcgm`",
    )


def test_a_dcgm_of_unknown_version(ask: Ask) -> None:
    found = ask(TABLE, version=None)
    assert (found["dcgm.found"].status, found["dcgm.found"].reason) == ("skip", "the version of DCGM is unknown")
    assert found["dcgm.discovery"].status == "pass"


def test_no_dcgm_is_a_failure_where_it_is_named(ask: Ask) -> None:
    one = ask(version="")["dcgm.found"]
    assert (one.status, one.reason, one.fix) == ("fail", "required, but no DCGM was found", "`gpustack install dcgm`")


def test_a_host_without_dcgm_is_no_failure(healthy: Host) -> None:
    skip = no_dcgm(healthy)
    assert skip is not None
    assert (skip.status, skip.reason) == ("skip", "no DCGM was found")
