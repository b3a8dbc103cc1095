"""The entry point for the command line and scripts: a host from this machine, or from a tree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpustack.detect.build import host_of
from gpustack.detect.evidence import RECORD, Evidence
from gpustack.detect.gather import gather
from gpustack.detect.packages_db import wanted_names
from gpustack.detect.parse.packages import all_packages
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host


def detect(root: Path | None, matrix: Matrix, *, python: str = "", with_problems: bool = True) -> Host:
    """The host at ``root``: a file system tree, a record of ``--record``, or a bug report; None is this machine.

    ``python`` is an interpreter whose environment is read wherever it is. Without problems no log is read.

    Raises UsageError if ``root`` is no folder and no report of nvidia-bug-report.sh, and nothing for its content.
    """
    evidence = _recorded(root)
    if evidence is None:
        evidence = gather(root, python=python, with_logs=with_problems)
    return host_of(evidence, matrix, with_problems=with_problems)


def detect_with_packages(root: Path | None, matrix: Matrix, names: Iterable[str]) -> tuple[Host, dict[str, str]]:
    """The host, and the version of each package of ``names`` in its database, "" if not installed.

    Names whose state is unknown, as of most in a recorded host, are omitted. Otherwise like ``detect``.
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
    """The content of a folder of ``--record``, or of NVIDIA's bug report; None if ``root`` is neither."""
    if root is None:
        return None
    if root.is_file():
        from gpustack.detect.bug_report import read_bug_report  # noqa: PLC0415 (as below)

        return read_bug_report(root)
    if not (root / RECORD).is_file():
        return None
    from gpustack.detect.record import read_record  # noqa: PLC0415 (the start-up time of this machine counts)

    return read_record(root)
