"""The entry point for the command line and scripts: a host from this machine, or from a tree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from gpustack.detect.build import host_of
from gpustack.detect.evidence import RECORD, Evidence
from gpustack.detect.gather import gather
from gpustack.detect.packages_db import wanted_names
from gpustack.detect.parse.packages import all_packages
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host


def detect(root: Path | None, matrix: Matrix, *, python: str = "", with_problems: bool = True) -> Host:
    """The host at ``root``; None is this machine.

    ``root`` is a file system tree, a record of ``--record``, or a text with logs and outputs of commands: NVIDIA's bug
    report, a thread, a job's log; ``-`` is standard input. ``python`` is an interpreter whose environment is read
    wherever it is. Without problems no log is read.

    Raises UsageError if ``root`` is no folder and no text about a GPU host, and nothing for a folder's content.
    """
    evidence = _recorded(root, matrix)
    if evidence is None:
        evidence = gather(root, python=python, with_logs=with_problems)
    host = host_of(evidence, matrix, with_problems=with_problems)
    return _with_place(host, root) if evidence.excerpt and root is not None else host


def detect_with_packages(root: Path | None, matrix: Matrix, names: Iterable[str]) -> tuple[Host, dict[str, str]]:
    """The host, and the version of each package of ``names`` in its database, "" if not installed.

    Names whose state is unknown, as of most in a recorded host, are omitted. Otherwise like ``detect``.
    """
    wanted = tuple(dict.fromkeys(names))
    evidence = _recorded(root, matrix)
    if evidence is None:
        evidence = gather(root, packages=wanted)
        known = wanted
    else:
        pattern = wanted_names()
        known = tuple(name for name in wanted if pattern.fullmatch(name))
    packages = [one for one in all_packages(evidence) if one.installed]
    there = {one.name: f"{one.epoch}:{one.version}" if one.epoch else one.version for one in packages}
    return host_of(evidence, matrix), {name: there.get(name, "") for name in known} if there else {}


def _with_place(host: Host, text: Path) -> Host:
    """The host of a text: lines of its programs are in the text, wherever they were read from."""
    from gpustack.detect.pasted import without_places  # noqa: PLC0415 (as below)

    name = "standard input" if str(text) == "-" else text.name
    problems = tuple(
        replace(one, message=without_places(one.message, name), fix=without_places(one.fix, name))
        for one in host.problems
    )
    if not host.environments:
        return replace(host, problems=problems)
    environments = tuple(replace(one, path=without_places(one.path, name)) for one in host.environments)
    return replace(host, problems=problems, environments=environments)


def _recorded(root: Path | None, matrix: Matrix) -> Evidence | None:
    """The content of a folder of ``--record``, or of a text; None if ``root`` is neither."""
    if root is None:
        return None
    if root.is_file() or str(root) == "-":
        from gpustack.detect.pasted import read_text  # noqa: PLC0415 (as below)

        return read_text(root, matrix)
    if not (root / RECORD).is_file():
        return None
    from gpustack.detect.record import read_record  # noqa: PLC0415 (the start-up time of this machine counts)

    return read_record(root)
