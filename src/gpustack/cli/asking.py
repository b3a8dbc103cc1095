"""From the options of ``plan``, ``explain`` and ``install`` to a request, a host and an answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from msgspec import UNSET

from gpustack.cli.declare import Argument
from gpustack.cli.options import KernelModule, Policy, fields_of, host_of
from gpustack.cli.stack_options import StackOptions
from gpustack.errors import UsageError

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix
    from gpustack.model.host import Host
    from gpustack.model.own_file import OwnFile
    from gpustack.model.request import Request, Target

DEFAULT_REQUIREMENTS = ("driver", "cuda", "cudnn")
"""The stack that ``gpustack plan`` plans by default: the one that nearly everything else is based on."""

_TARGET_REQUIREMENTS = {"sbsa": ("cuda", "cudnn"), "drive-os": ("cuda",), "qnx": ("cuda",)}
"""The same for a cross-compile setup; cuDNN for DRIVE OS comes with its SDK."""


Requirements = Annotated[
    list[str] | None, Argument(metavar="REQUIREMENT...", help="cuda>=12.4,<13 cudnn==9.* ffmpeg ...")
]


def collect_options(requirements: list[str] | None, options: Mapping[str, Any], **more: Any) -> StackOptions:
    """The options of the command line, completed from gpustack.toml. Raises DocumentError.

    ``options`` are those of the groups that the command takes, ``more`` fields of `StackOptions`.
    """
    fields = fields_of({key: value for key, value in options.items() if key != "file"})
    given = StackOptions(requirements=tuple(requirements or ()), **fields, **more)
    file: Path | None = options.get("file")
    if file is None:
        return given
    from gpustack.cli.requestfile import read_request_file

    return read_request_file(file, given)


def host_and_request(matrix: Matrix, question: StackOptions) -> tuple[Host, Request]:
    """The host and the request that the options describe. Raises UsageError, UnsupportedError, DocumentError."""
    host = host_of(matrix, question)
    return host, request_for(matrix, host, question)


def request_for(matrix: Matrix, host: Host, question: StackOptions) -> Request:
    """The request that the options describe, for this host. Raises UsageError, UnsupportedError."""
    from gpustack.model.request import Request
    from gpustack.plan.targets import demand_host
    from gpustack.solve.requirements import (
        merge,
        parse_methods,
        parse_requirement,
        parse_upgrades,
        split_frameworks,
    )

    requirements = merge(tuple(parse_requirement(text) for text in question.requirements))
    methods = parse_methods(question.methods)
    files: tuple[OwnFile, ...] = ()
    if question.files:
        from gpustack.cli.own_files import read_own_files, with_files

        files = read_own_files(matrix, question.files, host)
        requirements = with_files(requirements, methods, files)
    requirements, frameworks = split_frameworks(requirements)
    if not requirements and not frameworks:
        names = _TARGET_REQUIREMENTS.get(question.target or "") or default_requirements(host)
        requirements = tuple(parse_requirement(name) for name in names)
    request = Request(
        requirements=requirements,
        methods=methods,
        policy=(question.policy or Policy.PRODUCTION).value,
        upgrades=parse_upgrades(question.upgrades) if question.upgrades else UNSET,
        kernel_module=(question.kernel_module or KernelModule.AUTO).value,
        target=_target(question.target),
        deny_vulnerable=question.deny_vulnerable or UNSET,
        imex=UNSET if question.imex is None else question.imex.value,
        files=files or UNSET,
        stage=UNSET if question.stage is None else question.stage.value,
        frameworks=frameworks or UNSET,
    )
    demand_host(matrix, host, request)
    return request


def _target(name: str | None) -> Target:
    """Look up a target by name. Raises UsageError if it is unknown."""
    if name is None:
        return ""
    if name not in _TARGET_REQUIREMENTS:
        msg = f"--target {name!r} is not known"
        raise UsageError(msg, code="unknown-target", hint=f"targets: {', '.join(_TARGET_REQUIREMENTS)}")
    return cast("Target", name)


def default_requirements(host: Host) -> tuple[str, ...]:
    """The default stack; no driver on a host without a GPU, or where something else provides the driver."""
    from gpustack.solve.question import driver_owner

    has_own_driver = bool(host.gpus) and not driver_owner(host)
    return DEFAULT_REQUIREMENTS if has_own_driver else DEFAULT_REQUIREMENTS[1:]
