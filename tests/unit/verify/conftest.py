"""Hosts as data, a few rules of their own, and a runner that answers from a record."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpustack import resources
from gpustack.matrix.index import Matrix
from gpustack.matrix.layout import FORMAT, Index
from gpustack.matrix.overlay import lay_over
from gpustack.matrix.store import Store
from gpustack.model.host import Copy, Gpu, Host, Installed, KernelModule, OperatingSystem
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished
from gpustack.verify.declare import Context
from gpustack.verify.frame.runner import run_checks

LIBRARIES = "/usr/lib/x86_64-linux-gnu"


class Recorded:
    """Answers commands from a record; any other is not installed."""

    def __init__(self, answers: dict[str, Finished] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[tuple[tuple[str, ...], float]] = []

    def run(self, argv: tuple[str, ...], *, timeout: float = 10.0) -> Finished:
        self.asked.append((argv, timeout))
        missing = Finished(argv=argv, code=None, error=f"{argv[0]} is not installed")
        return self.answers.get(" ".join(argv), missing)


HEALTHY = Host(
    os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt"),
    arch="x86_64",
    kernel="6.8.0-45-generic",
    environment="bare-metal",
    gpus=(
        Gpu(
            name="L4",
            pci_id="10de:27b8",
            bus_id="0000:01:00.0",
            compute_capability="8.9",
            kind="datacenter",
            open_module="possible",
            driver_first="520",
            bound="nvidia",
            uuid="GPU-0",
        ),
    ),
    module=KernelModule(version="550.54.15", flavour="open", loaded=True),
    gcc="13.2.0",
    installed={
        "driver": Installed(version="550.54.15", method="network", packages=("nvidia-open",), packaged="550.54.15"),
        "cuda": Installed(version="12.4.1", method="network", path="/usr/local/cuda-12.4"),
        "cudnn": Installed(version="9.1.0.70", method="network", packages=("libcudnn9-cuda-12",)),
    },
    copies=(
        Copy(
            component="driver",
            path=f"{LIBRARIES}/libcuda.so.1",
            version="550.54.15",
            soname="libcuda.so.1",
            wins=True,
        ),
        Copy(
            component="cudnn",
            path=f"{LIBRARIES}/libcudnn.so.9",
            version="9.1.0",
            soname="libcudnn.so.9",
            wins=True,
        ),
    ),
)
"""A host on which every check holds that applies to it."""


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """A small matrix of versions; what error numbers and variables mean is the real one."""
    folder = tmp_path_factory.mktemp("facts")
    shutil.copytree(Path(__file__).parent / "facts", folder, dirs_exist_ok=True)
    for name in ("driver-errors", "environment"):
        shutil.copy(resources.folder("matrices") / f"{name}.yaml", folder)
    return Matrix(lay_over(Store(Index(format=FORMAT, subjects={}), None, {}), folder))


@pytest.fixture
def healthy() -> Host:
    return HEALTHY


@pytest.fixture
def recorded() -> type[Recorded]:
    return Recorded


Answer = Callable[..., CheckResult]


@pytest.fixture
def answer(matrix: Matrix) -> Answer:
    """Run the checks of one check's component on the healthy host with changes, and return that check's result."""

    def run(
        identity: str, *, gpu: dict[str, Any] | None = None, runner: Recorded | None = None, **changes: Any
    ) -> CheckResult:
        host = HEALTHY
        if gpu is not None:
            changes["gpus"] = (msgspec.structs.replace(HEALTHY.gpus[0], **gpu),)
        for name, version in changes.pop("versions", {}).items():
            installed = {**host.installed, name: msgspec.structs.replace(host.installed[name], version=version)}
            host = msgspec.structs.replace(host, installed=installed)
        for name in changes.pop("without", ()):
            kept = {key: value for key, value in host.installed.items() if key != name}
            copies = tuple(copy for copy in host.copies if copy.component != name)
            host = msgspec.structs.replace(host, installed=kept, copies=copies)
        context = Context(host=msgspec.structs.replace(host, **changes), matrix=matrix, runner=runner)
        results = run_checks((identity.partition(".")[0],), "quick", context)
        return next(one for one in results if one.id == identity)

    return run
