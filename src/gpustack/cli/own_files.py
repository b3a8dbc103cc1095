"""``--from COMPONENT=FILE``: files that the user has downloaded, and what they demand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.errors import UsageError

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix
    from gpustack.model.host import Host
    from gpustack.model.own_file import OwnFile
    from gpustack.model.request import Method, Requirement


def read_own_files(matrix: Matrix, texts: tuple[str, ...], host: Host) -> tuple[OwnFile, ...]:
    """The files that the words COMPONENT=FILE name. Raises UsageError (exit 2) where one is something else."""
    from gpustack.detect.downloaded.api import read_own_file
    from gpustack.solve.requirements import component_named

    found = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            msg = f"{text!r} is not COMPONENT=FILE"
            raise UsageError(msg, code="invalid-value", where="--from", hint="for example --from cudnn=./cudnn.deb")
        found.append(read_own_file(matrix, component_named(name), Path(path), host))
    for component in dict.fromkeys(one.component for one in found):
        _demand_one_release([one for one in found if one.component == component])
    return tuple(found)


def _demand_one_release(files: list[OwnFile]) -> None:
    """Several files of a component are packages, or wheels, of one build. Raises UsageError."""
    first = files[0]
    for other in files[1:]:
        together = first.form in {"package", "wheel"} and other.form == first.form
        if together and (other.version, other.cuda) == (first.version, first.cuda):
            continue
        msg = (
            f"--from gives {first.component} twice: {first.version} for CUDA {first.cuda or 'of any release'}, and "
            f"{other.version} for CUDA {other.cuda or 'of any release'}"
        )
        raise UsageError(
            msg,
            code="conflicting-options",
            where=other.path,
            hint="several files are packages of one release and build",
        )


def with_files(
    requirements: tuple[Requirement, ...], methods: Mapping[str, Method], files: tuple[OwnFile, ...]
) -> tuple[Requirement, ...]:
    """The requirements with the versions of the files. Raises UsageError where something else is asked for."""
    from gpustack.model.request import Requirement
    from gpustack.solve.own_files import METHOD_OF
    from gpustack.solve.question import is_meant

    merged = {one.component: one for one in requirements}
    for file in files:
        name = file.component
        asked = merged.get(name)
        if asked is not None and asked.versions and not is_meant(asked.versions, file.version):
            msg = f"is {name} {file.version}, and {asked} is asked for"
            raise UsageError(msg, code="conflicting-options", where=file.path, hint=f"ask for {name}=={file.version}")
        method = methods.get(name)
        if method is not None and method != METHOD_OF[file.form]:
            msg = f"is installed by the method {METHOD_OF[file.form]}, and --method {name}={method} is asked for"
            raise UsageError(msg, code="conflicting-options", where=file.path, hint="leave --method out")
        merged[name] = Requirement(component=name, versions=f"=={file.version}")
    return tuple(merged.values())
