"""The builds of frameworks in the facts: what is inside the one that is installed, and which one would run here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.detect.environments.parse import Build, Code, Found
from gpustack.solve.cuda_runs import release_of, runs_on
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.versions import is_within, version_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.frameworks import Build as Known
    from gpustack.model.host import Gpu
    from gpustack.solve.question import Question

_RUNS = {"runs", "runs by minor-version compatibility"}


_FOR_JETSON = (
    "NVIDIA's wheel for this JetPack (its page Installing PyTorch for Jetson): those of the index are for servers"
)
"""What is installed in place of a build on a board whose GPU the usual wheels do not support."""


def number(capability: str) -> int:
    """A compute capability as a number: 90 is 9.0."""
    major, _, minor = capability.partition(".")
    return int(major) * 10 + int(minor or 0)


def runs_code(code: Code, capability: int) -> bool:
    """Machine code runs on its major version from its minor version on; PTX is compiled for any later GPU."""
    machine = any(one // 10 == capability // 10 and one <= capability for one in code.sm)
    return machine or any(one <= capability for one in code.ptx)


def known_code(found: Found, build: Build, question: Question) -> Code | None:
    """The GPU code inside the installed build by the facts; None if they do not have it."""
    plain, _, local = found.packages.get(build.name, build.version).partition("+")
    here = platform_of(question.host)
    for one in Catalog(question.matrix).builds(build.name):
        if (one.version, one.local, one.platform) == (plain, local, here) and (one.sass or one.ptx):
            return _code(one)
    return None


def _code(build: Known) -> Code:
    return Code(path="", sm=tuple(map(number, build.sass)), ptx=tuple(map(number, build.ptx)))


def replacement(found: Found, build: Build, question: Question, driver: str, gpus: tuple[Gpu, ...]) -> str:
    """The command that installs a build which runs here, of the same release if there is one; "" if none is known."""
    if question.host.environment == "jetson" and not any(
        is_within(gpu.compute_capability or "0", ">=11") for gpu in gpus
    ):
        return _FOR_JETSON
    plain = build.version.partition("+")[0]
    fitting = [one for one in _fitting(build.name, question, driver, gpus) if _is_for(one, found.python)]
    if not fitting:
        return ""
    chosen = next((one for one in fitting if one.version == plain), fitting[0])
    index = f" {chosen.index_option}" if chosen.index else ""
    python = f"{found.path}/bin/python -m pip install --force-reinstall"
    return f'`{python} "{build.name}=={chosen.version}"{index}`'


def _is_for(build: Known, python: str | None) -> bool:
    """Whether a build is for this Python, as far as both are known."""
    return not python or not build.python or is_within(python, build.python)


def _fitting(name: str, question: Question, driver: str, gpus: tuple[Gpu, ...]) -> Iterator[Known]:
    """The builds that run here, newest release first, the default index's and the newest CUDA of each first."""
    here = platform_of(question.host)
    capabilities = [number(gpu.compute_capability) for gpu in gpus if gpu.compute_capability]
    known = [one for one in Catalog(question.matrix).builds(name) if one.platform == here and one.code == "cuda"]
    for one in sorted(known, key=lambda row: (version_key(row.version), not row.local, row.cuda), reverse=True):
        release = release_of(question, one.cuda)
        if one.status or release is None or not (one.sass or one.ptx):
            continue
        if driver and runs_on(question, release, driver) not in _RUNS:
            continue
        if all(runs_code(_code(one), capability) for capability in capabilities):
            yield one
