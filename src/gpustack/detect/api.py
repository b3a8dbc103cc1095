"""The one function that the command line and scripts call: a host from this machine, or from a tree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpustack.detect.build import host_of
from gpustack.detect.evidence import Evidence
from gpustack.detect.gather import gather
from gpustack.detect.packages_db import wanted_names
from gpustack.detect.parse.packages import all_packages
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host


def detect(root: Path | None, matrix: Matrix) -> Host:
    """The host at ``root``: a file system tree, or a folder that ``--record`` wrote; None is this machine.

    Raises UsageError where ``root`` is no folder, and nothing for what is found inside.
    """
    evidence = _recorded(root)
    return host_of(evidence if evidence is not None else gather(root), matrix)


def detect_with_packages(root: Path | None, matrix: Matrix, names: Iterable[str]) -> tuple[Host, dict[str, str]]:
    """The host, and the version of each package of ``names`` as the database has it, "" where it is not installed.

    Names of which nothing can be known, as of most in a recorded host, are left out. Otherwise as ``detect``.
    """
    wanted = tuple(dict.fromkeys(names))
    evidence = _recorded(root)
    if evidence is None:
        evidence = gather(root, packages=wanted)
        known = wanted
    else:
        pattern = wanted_names()
        known = tuple(name for name in wanted if pattern.fullmatch(name))
    packages = [one for one in all_packages(evidence) if one.installed]
    there = {one.name: f"{one.epoch}:{one.version}" if one.epoch else one.version for one in packages}
    return host_of(evidence, matrix), {name: there.get(name, "") for name in known} if there else {}


def _recorded(root: Path | None) -> Evidence | None:
    """What a folder of ``--record`` holds; None where ``root`` is no such folder."""
    if root is None:
        return None
    from gpustack.detect.record import read_record  # noqa: PLC0415 (this machine's own start-up counts)

    return read_record(root)
