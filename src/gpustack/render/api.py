"""The formats of a plan, by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from gpustack.errors import UsageError
from gpustack.model.plan import Plan

if TYPE_CHECKING:
    from gpustack.render.settings import Settings

FORMATS = (
    "json", "table", "shell", "powershell", "ansible", "cloud-init", "dockerfile", "apptainer", "bootc", "packer",
    "terraform", "kickstart", "autoinstall", "gpu-operator", "modules", "spack", "markdown",
)  # fmt: skip

PYTHON_FORMATS = ("requirements", "uv", "conda", "pixi", "pylock")
"""The formats of a plan's Python environment, for Python's own installers."""

_SCRIPTS = {name: name == "powershell" for name in FORMATS if name not in {"json", "table", "markdown"}}
"""The formats that only one side can run: True for Windows."""

_SET: dict[str, tuple[str, ...]] = {"image": ("dockerfile", "apptainer", "bootc"), "prefix": ("modules",)}
"""The formats that take each setting."""

_LEAVING_OUT = frozenset({"dockerfile", "apptainer", "bootc", "spack"})
"""The formats of a part of a plan, which say what they omit."""

_OPTIONS = {"image": "--base-image", "prefix": "--prefix"}


class _Writer(Protocol):
    def render(self, plan: Plan) -> str: ...


class _SetWriter(Protocol):
    def render(self, plan: Plan, settings: Settings) -> str: ...


def demand_format(name: str) -> None:
    """Raise UsageError if there is no format of that name, with the nearest one."""
    known = (*FORMATS, *PYTHON_FORMATS)
    if name in known:
        return
    from difflib import get_close_matches  # noqa: PLC0415 (only for a message)

    near = get_close_matches(name, known, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    msg = f"there is no format {name!r} of a plan"
    raise UsageError(msg, code="unknown-format", where="--format", hint=f"{guess}formats: {', '.join(known)}")


def render(
    plan: Plan,
    format: str,  # noqa: A002 (the option's own name)
    settings: Settings | None = None,
    *,
    index: str = "",
) -> str:
    """The plan as text in this format. Raises UsageError for an unknown format or one that its host cannot run.

    ``index`` is the package index that the formats of Python's installers name, "" none.
    """
    demand_format(format)
    _demand_runnable(plan, format)
    _demand_settings(format, settings)
    if format in PYTHON_FORMATS:
        return str(import_module("gpustack.render.python_formats").render(plan, format, index))
    module = import_module(f"gpustack.render.{format.replace('-', '_')}")
    if any(format in formats for formats in _SET.values()):
        return cast("_SetWriter", module).render(plan, settings or _nothing_set())
    return cast("_Writer", module).render(plan)


def render_stages(build: Plan, runtime: Plan, format: str, settings: Settings | None = None) -> str:  # noqa: A002
    """Two plans, of the stages build and runtime, as one text. Raises UsageError for a format without stages."""
    demand_format(format)
    for plan in (build, runtime):
        _demand_runnable(plan, format)
    _demand_settings(format, settings)
    if format != "dockerfile":
        msg = "2 plans are given, but this format writes one document of one plan"
        raise UsageError(
            msg,
            code="conflicting-options",
            hint="several go into a folder: --format ansible --out DIR; two stages into one: --format dockerfile",
        )
    return str(import_module("gpustack.render.dockerfile").render_stages(build, runtime, settings or _nothing_set()))


def _nothing_set() -> Settings:
    from gpustack.render.settings import Settings  # noqa: PLC0415 (most formats have no settings)

    return Settings()


def _demand_settings(form: str, settings: Settings | None) -> None:
    """Raise UsageError for a setting that the format does not have."""
    if settings is None:
        return
    for name, formats in _SET.items():
        if getattr(settings, name) and form not in formats:
            msg = f"the format {form!r} has no such setting"
            raise UsageError(
                msg,
                code="conflicting-options",
                where=_OPTIONS[name],
                hint=f"{_OPTIONS[name]} is for --format {', '.join(formats)}",
            )


def without_verification(plan: Plan) -> Plan:
    """The plan without its verification, for forms; all else, also its digest, stays."""
    return replace(plan, steps=tuple(step for step in plan.steps if step.phase != "verification"))


def render_tree(
    plans: Mapping[str, Plan],
    format: str,  # noqa: A002 (the option's own name)
    settings: Settings | None = None,
) -> dict[str, str]:
    """The files that several plans, by the names of their files, make together: their texts by path.

    Raises UsageError for a format without such files, for a host that cannot run it, and for an invalid host name.
    """
    if format not in {"ansible", "modules"}:
        msg = f"a plan in the format {format!r} is one document"
        raise UsageError(
            msg,
            code="format-unsupported",
            where="--out",
            hint="--out DIR requires --format ansible or modules; other formats write to standard output",
        )
    for plan in plans.values():
        _demand_runnable(plan, format)
    _demand_settings(format, settings)
    if format == "modules":
        return dict(import_module("gpustack.render.modules").tree(plans, settings or _nothing_set()))
    return dict(import_module("gpustack.render.ansible_roles").tree(plans))


def is_ours(start: str) -> bool:
    """Whether a file of a tree that begins with this text was written here, so that it may be rewritten."""
    return "written by gpustack" in start.lower()


def _demand_runnable(plan: Plan, format: str) -> None:  # noqa: A002 (the option's own name)
    is_windows = plan.host.os.family == "windows"
    if _SCRIPTS.get(format, is_windows) != is_windows:
        system = plan.host.os.called
        msg = f"{system} cannot run the format {format!r}"
        right = next(name for name, windows in _SCRIPTS.items() if windows == is_windows)
        raise UsageError(msg, code="format-unsupported", where="--format", hint=f"for this plan: --format {right}")


def render_short(plan: Plan, format: str) -> str:  # noqa: A002 (the option's own name)
    """The form that only calls gpustack, for images that contain it. Raises UsageError if a format has none."""
    demand_format(format)
    if format != "cloud-init":
        msg = f"the format {format!r} has no short form"
        raise UsageError(
            msg,
            code="format-unsupported",
            where="--short",
            hint="--format cloud-init --short: user-data that calls gpustack",
        )
    return str(import_module("gpustack.render.cloud_init_short").render(plan))


def remarks(plan: Plan, format: str) -> list[str]:  # noqa: A002 (the option's own name)
    """What this format omits from the plan, one sentence each, for the warnings."""
    if format in PYTHON_FORMATS:
        return list(import_module("gpustack.render.python_formats").omitted(plan, format))
    if format not in _LEAVING_OUT:
        return []
    return list(import_module(f"gpustack.render.{format}").left_out_of(plan))
