"""The Python API: `gpustack.detect`, `check`, `plan`, `render` and `verify`.

Everything returned is a frozen struct with types; `to_dict` makes it a document as the command line prints it. What
is wrong is raised as `gpustack.errors.GpustackError`, with the exit code of the command line as ``exit_code``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix
    from gpustack.model.host import Host
    from gpustack.model.image import ImageContent
    from gpustack.model.plan import Plan
    from gpustack.model.request import KernelModule, Policy, Requirement
    from gpustack.model.resolution import Verdict
    from gpustack.model.results import Level, Report

__all__ = ["check", "describe", "detect", "image_content", "plan", "render", "to_dict", "verify"]


@lru_cache(maxsize=4)
def _facts(folder: str = "") -> Matrix:
    from gpustack.matrix.index import load_matrix  # noqa: PLC0415

    return load_matrix(Path(folder) if folder else None)


def detect(root: str | Path | None = None, *, python: str = "") -> Host:
    """Detect this machine, or the file system tree below ``root``; ``python`` is an interpreter to look into as well.

    Changes nothing, needs no root. Raises UsageError if ``root`` is not a folder.
    """
    from gpustack.detect.api import detect as detected  # noqa: PLC0415

    return detected(Path(root) if root is not None else None, _facts(), python=python)


def describe(  # noqa: PLR0913 (keywords, as the command line has options)
    os: str,
    *,
    arch: str | None = None,
    gpus: Iterable[str] = (),
    driver: str | None = None,
    python: str | None = None,
    glibc: str | None = None,
    kernel: str | None = None,
) -> Host:
    """A host that is not at hand, as ``--os``, ``--arch``, ``--gpu``, ``--driver`` and so on describe one.

    What is not given has the default of the system. Raises UsageError and UnsupportedError for names that are unknown.
    """
    from gpustack.detect.describe import describe as described  # noqa: PLC0415
    from gpustack.detect.properties import Properties  # noqa: PLC0415

    given = Properties(python=python, glibc=glibc, kernel=kernel)
    return described(_facts(), os=os, arch=arch, gpus=tuple(gpus), driver=driver, properties=given)


def image_content(place: str | Path, *, arch: str | None = None) -> ImageContent:
    """A container image in a file or folder: configuration, saved image, OCI layout, Dockerfile. Raises UsageError."""
    from gpustack.detect.images.read import read_image  # noqa: PLC0415

    return read_image(Path(place), arch)


def check(  # noqa: PLR0913 (keywords, as the command line has options)
    *words: str,
    host: Host | None = None,
    image: str | ImageContent | None = None,
    deny_vulnerable: bool = False,
    named: Iterable[str] = (),
    kernel_module: KernelModule = "auto",
    facts: Matrix | None = None,
) -> Verdict:
    """Whether components ("cuda==13.0.2"), codecs ("nvenc-av1") and an image are compatible on ``host``, and why (not).

    ``host`` is this machine by default; ``named`` are the properties of it that were given by name ("gcc", "python"),
    and that the answer names; ``kernel_module`` is the flavour of the driver's kernel modules, ``facts`` other
    facts than the built-in ones. Raises UsageError for a malformed requirement, or if nothing is asked.
    """
    from msgspec import UNSET  # noqa: PLC0415

    from gpustack.errors import UsageError  # noqa: PLC0415
    from gpustack.model.request import Beside, Request  # noqa: PLC0415
    from gpustack.solve.check import check as judge  # noqa: PLC0415

    if not words and image is None:
        msg = "no component and no image is given"
        raise UsageError(msg, code="missing-argument", hint="for example gpustack check cuda==13.0.2, or --image NAME")
    stack, frameworks, codecs = _meant(words) if words else ((), (), ())
    request = Request(
        requirements=stack,
        named=tuple(named) or UNSET,
        kernel_module=kernel_module,
        deny_vulnerable=deny_vulnerable or UNSET,
        frameworks=frameworks or UNSET,
    )
    beside = Beside(codecs=codecs, image=image)
    return judge(facts or _facts(), host or detect(), request, beside=beside, with_hints=True)


def _meant(words: Iterable[str]) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...], tuple[str, ...]]:
    """Words as requirements on components, on frameworks, and as codecs. Raises UsageError."""
    from gpustack.solve.codecs import codec_word  # noqa: PLC0415 (an image alone has no words)
    from gpustack.solve.requirements import merge, parse_requirement, split_frameworks  # noqa: PLC0415

    found = {text: codec_word(text) for text in words}
    codecs = tuple(word for word in found.values() if word is not None)
    components = tuple(parse_requirement(text) for text, word in found.items() if word is None)
    return *split_frameworks(merge(components)), codecs


def plan(
    *requirements: str,
    host: Host | None = None,
    methods: Iterable[str] = (),
    policy: Policy = "production",
    strict: bool = False,
) -> Plan:
    """The steps that take ``host`` (this machine by default) to a stack: driver, CUDA and cuDNN if nothing is named.

    ``methods`` are those of ``--method``: "pip", or "cudnn=tar" for one component. With ``strict`` a stack that cannot
    be judged completely is refused. Raises NoSolutionError, UnsupportedError, UsageError.
    """
    from msgspec import UNSET  # noqa: PLC0415

    from gpustack.cli.asking import default_requirements  # noqa: PLC0415
    from gpustack.model.request import Request  # noqa: PLC0415
    from gpustack.plan.build import build  # noqa: PLC0415
    from gpustack.plan.targets import demand_host  # noqa: PLC0415
    from gpustack.solve.requirements import merge, parse_methods, parse_requirement, split_frameworks  # noqa: PLC0415
    from gpustack.solve.resolve import demand_judged, resolve  # noqa: PLC0415

    here, matrix = host or detect(), _facts()
    asked = requirements or default_requirements(here)
    stack, frameworks = split_frameworks(merge(tuple(parse_requirement(text) for text in asked)))
    request = Request(
        requirements=stack,
        methods=parse_methods(tuple(methods)),
        policy=policy,
        frameworks=frameworks or UNSET,
    )
    demand_host(matrix, here, request)
    resolution = resolve(matrix, here, request)
    if strict:
        demand_judged(resolution)
    return build(here, request, resolution, matrix)


def render(plan: Plan, format: str = "table") -> str:  # noqa: A002 (the option's own name)
    """A plan in one of the formats of ``gpustack render``. Raises UsageError for an unknown one."""
    from gpustack.render.api import render as rendered  # noqa: PLC0415

    return rendered(plan, format)


def verify(
    *components: str, level: Level = "quick", require: Iterable[str] = (), host: Host | None = None, python: str = ""
) -> Report:
    """The checks of ``components`` (all by default) on this machine, up to ``level``: "quick", "smoke", "full".

    With a ``host`` (a saved snapshot, a tree) only checks of level quick run. ``require`` are components and checks
    that may not be skipped; ``python`` is the interpreter that frameworks are checked in. Raises UsageError.
    """
    from gpustack.system.run import LocalRunner  # noqa: PLC0415
    from gpustack.verify.api import verify as verified  # noqa: PLC0415

    here = host or detect(python=python)
    runner = LocalRunner() if host is None else None
    given = {"python": python} if python else {}
    return verified(components, level, here, _facts(), runner, require, given=given)


def to_dict(document: Host | Verdict | Plan | Report) -> dict[str, Any]:
    """A result as the document that the command line prints as JSON, in plain Python types."""
    import msgspec  # noqa: PLC0415

    from gpustack.model.plan import Plan  # noqa: PLC0415

    if isinstance(document, Plan):
        from gpustack.plan.document import dump  # noqa: PLC0415

        found: dict[str, Any] = msgspec.json.decode(dump(document))
        return found
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain
