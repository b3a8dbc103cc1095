"""The plan document: the ordered steps that take a host to a stack, with the reason for each."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import State
from gpustack.model.steps import Step

PHASES = (
    "preflight",
    "prerequisites",
    "repositories",
    "driver",
    "reboot",
    "toolkit",
    "libraries",
    "applications",
    "verification",
)
"""The order of a plan's steps."""


class StackEntry(Struct, frozen=True, kw_only=True):
    """One component of the stack as the plan document shows it.

    ``former`` ("from" in the document) is the version before, None if there was none; plans of the first edition do not
    record it.
    """

    version: str
    method: str
    reason: str
    sources: tuple[str, ...] = ()
    state: State = "install"
    former: str | UnsetType | None = field(default=UNSET, name="from")
    flavour: Literal["", "open", "proprietary"] = ""

    @property
    def change(self) -> str:
        """The version, after the one that it replaces: "13.0.2 -> 13.4.1"."""
        if self.state in {"upgrade", "downgrade"} and self.former:
            return f"{self.former} -> {self.version}"
        return self.version


class BaseImage(Struct, frozen=True, kw_only=True):
    """The base image for an image with this stack, with the pages that name it."""

    name: str
    sources: tuple[str, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/plan/v1``. ``digest`` is the sha256 of everything else in canonical JSON.

    ``facts`` is the sha256 of the facts and ``facts_date`` when they were true; plans made before dates were recorded
    omit it. ``image`` is the container image of the host's system, omitted if the facts know none.
    """

    schema: Literal["gpustack/plan/v1"] = "gpustack/plan/v1"
    host: Host
    host_digest: str
    request: Request
    facts: str
    facts_date: str | UnsetType = UNSET
    image: BaseImage | UnsetType = UNSET
    stack: dict[str, StackEntry] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    digest: str = ""
