"""``gpustack check``."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import HOST_OPTIONS, DenyVulnerable, HostQuestion, ModuleOption, fields_of, host_of

if TYPE_CHECKING:
    from gpustack.model.host import Host
    from gpustack.model.image import ImageContent
    from gpustack.model.resolution import Verdict


class CheckFormat(str, Enum):
    """The formats of `check`."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


INCOMPATIBLE = 3
NAMED = ("clang", "gcc", "msvc", "kernel", "glibc", "python")
"""The options that name a property of the host."""
UNKNOWN = 7


@command(
    "check",
    example="gpustack check cuda==13.0.2 driver==535.104.05 --os ubuntu24.04 --gpu H200",
    takes=HOST_OPTIONS,
)
def check(
    options: Mapping[str, Any],
    combination: Annotated[
        list[str] | None,
        Argument(
            metavar="COMPONENT==VERSION...",
            help="Components and versions to check, e.g. cuda==13.0.2; codecs of the GPU, e.g. nvenc-av1.",
        ),
    ] = None,
    image: Annotated[
        str | None,
        Option(
            "--image",
            metavar="NAME|FILE|DIR",
            help="A container image: nvcr.io/nvidia/pytorch:25.06-py3; or its configuration, a saved image, an OCI "
            "layout, a Dockerfile.",
        ),
    ] = None,
    format: Annotated[
        CheckFormat, Option("--format", help="github: annotations of a Dockerfile or job.")
    ] = CheckFormat.TEXT,
    kernel_module: ModuleOption = None,
    deny_vulnerable: DenyVulnerable = None,
) -> int:
    """Is this combination compatible, and why (not)? Exit 0 yes, 3 no, 7 not known."""
    from msgspec.structs import replace

    from gpustack.api import check as judge

    asked = HostQuestion(**fields_of(options))
    words = tuple(combination or ())
    matrix = frame.matrix()
    # No verdict depends on a problem of the host.
    host = host_of(matrix, asked, with_problems=False) if words or image is not None else None
    content = _content(image, host.arch) if image is not None and host is not None else None
    verdict = judge(
        *words,
        host=host,
        image=content or image,
        deny_vulnerable=bool(deny_vulnerable),
        kernel_module=kernel_module.value if kernel_module is not None else "auto",
        named=(name for name in NAMED if options.get(name) is not None),
        facts=matrix,
    )
    if asked.os is None and host is not None:
        verdict = replace(verdict, judged_for=_judged_for(asked, host))
    frame.page(_written(verdict, content, format))
    return {"compatible": 0, "incompatible": INCOMPATIBLE, "unknown": UNKNOWN}[verdict.verdict]


def _content(image: str, arch: str | None) -> "ImageContent | None":
    """The image in a file or folder; None for a name."""
    from gpustack.detect.images.read import is_place, read_image

    return read_image(Path(image), arch) if is_place(image) else None


def _written(verdict: "Verdict", content: "ImageContent | None", format: CheckFormat) -> str:
    if format is CheckFormat.JSON:
        return frame.to_json(verdict)
    if format is CheckFormat.GITHUB:
        from gpustack.cli.check_annotations import annotate

        return annotate(verdict, content)
    return _text(verdict)


def _judged_for(asked: HostQuestion, host: "Host") -> str:
    """The detected host in words: where it was read, its system, and what of its installed components takes part."""
    where = f"the tree {asked.root}" if asked.root else f"the host in {asked.host}" if asked.host else "this machine"
    system = ", ".join(filter(None, [host.os.called, host.arch]))
    parts = [f"{name} {one.version}" for name, one in sorted(host.installed.items()) if one.version]
    return f"{where} ({system}), with {', '.join(parts) if parts else 'none of the components'} installed"


def _text(verdict: "Verdict") -> str:
    from msgspec import UNSET

    from gpustack.solve.words import title

    lines = []
    for conflict in verdict.conflicts:
        lines.append(f"conflict between {' and '.join(conflict.between)}")
        lines.append(f"  {conflict.reason}")
        lines += [f"  [{source}]" for source in conflict.sources]
    lines += [f"unknown: {one.reason}" for one in verdict.unknown]
    lines += [f"warning: {text}" for text in verdict.warnings]
    if not any(conflict.kind == "vulnerable" for conflict in verdict.conflicts):
        lines += [f"warning: {one.reason}" for one in verdict.security]
    lines += [f"hint: {text}" for text in verdict.hints]
    lines += [f"for {title(one.property)} {one.value}, the default of {one.system}" for one in verdict.assumed]
    lines += _not_judged(verdict)
    lines += [
        f"{' and '.join(one.between)}: {one.stand}{f' {title(one.through)}' * bool(one.through)}: {one.reason}"
        for one in verdict.declared
        if not one.is_of_components
    ]
    if verdict.judged_for is not UNSET:
        lines.append(f"judged for {verdict.judged_for}; --os describes another host")
    return "\n".join([verdict.verdict, *lines])


def _not_judged(verdict: "Verdict") -> list[str]:
    """One line for each unknown property, with the rules that depend on it."""
    from gpustack.solve.words import title

    rules: dict[tuple[str, str], list[str]] = {}
    lines = [f"not judged: {one.reason}" for one in verdict.not_judged if not one.rule]
    for one in verdict.not_judged:
        if not one.rule:
            continue
        rules.setdefault((one.property, one.option), []).append(one.rule)
    return lines + [
        f"not judged: {title(name)} is unknown ({option} gives it): {', '.join(ids)}"
        for (name, option), ids in rules.items()
    ]
