"""The answers of the solver: a resolution with reasons, a conflict with its smallest cause, a verdict of ``check``."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from gpustack.model.frameworks import Build
from gpustack.model.offer import Offer
from gpustack.model.request import Method

State = Literal["install", "upgrade", "downgrade", "keep"]


class Reason(Struct, frozen=True, kw_only=True):
    """Why a pick was made. For people only: no code may branch on it.

    ``role``: asked, host, newest, policy, installed, needed-by, refused-newer.
    """

    role: str
    text: str
    sources: tuple[str, ...] = ()


class Pick(Struct, frozen=True, kw_only=True):
    """One component of a stack: the chosen version, the method that installs it, and the rows behind both."""

    component: str
    version: str
    method: Method
    state: State = "install"
    flavour: Literal["", "open", "proprietary"] = ""
    offer: Offer = Offer()
    reasons: tuple[Reason, ...] = ()


class Unknown(Struct, frozen=True, kw_only=True):
    """Why there is no answer: facts that end, or a rule that ``needs`` an unknown property of the system.

    ``rule`` is the id of that rule and ``option`` the option that supplies the property; "" without a rule.
    """

    reason: str
    rule: str = ""
    needs: str = ""
    option: str = ""
    sources: tuple[str, ...] = ()


class Exposure(Struct, frozen=True, kw_only=True):
    """Known vulnerabilities of a version: the bulletins that name a later fixed release, newest first.

    ``severity`` is the highest of them; ``fixed`` the release of the same branch that has all fixes named for that
    branch, "" if none is named.
    """

    component: str
    version: str
    bulletins: tuple[str, ...]
    severity: str
    fixed: str
    reason: str
    sources: tuple[str, ...] = ()


class FrameworkPick(Struct, frozen=True, kw_only=True):
    """One framework for Python of a stack: the chosen build, and why."""

    build: Build
    reasons: tuple[Reason, ...] = ()


class Resolution(Struct, frozen=True, kw_only=True):
    """One version for each component, compatible with each other and the host, except for what is ``unknown``.

    ``frameworks`` are those for Python, by name.
    """

    picks: tuple[Pick, ...]
    warnings: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    frameworks: tuple[FrameworkPick, ...] | UnsetType = UNSET

    def pick(self, component: str) -> Pick | None:
        """The pick of a component, None if it is not in the stack."""
        return next((pick for pick in self.picks if pick.component == component), None)


ConflictKind = Literal[
    "foreign-system",
    "refused-by-host",
    "vulnerable",
    "no-common-flavour",
    "refused-pair",
    "no-combination",
    "known-bad",
    "video-engine",
    "session-limit",
    "image",
    "framework",
]


class Conflict(Struct, frozen=True, kw_only=True):
    """Things that exclude each other. ``between`` names them ("cuda==13.0.2", "gpu: ...", "os: ...").

    ``kind`` is the stable id of what is wrong, for scripts.
    """

    kind: ConflictKind
    between: tuple[str, ...]
    reason: str
    sources: tuple[str, ...] = ()


class Findings(Struct, frozen=True, kw_only=True):
    """The findings on one part of a question; parts are merged with each other, and into a verdict."""

    conflicts: tuple[Conflict, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def __add__(self, other: Findings) -> Findings:
        return Findings(
            conflicts=self.conflicts + other.conflicts,
            unknown=self.unknown + other.unknown,
            warnings=self.warnings + other.warnings,
            hints=self.hints + other.hints,
        )


class NotJudged(Struct, frozen=True, kw_only=True):
    """A rule about something that differs between hosts and is unknown here. The verdict ignores it."""

    rule: str
    property: str
    option: str
    reason: str


class Assumed(Struct, frozen=True, kw_only=True):
    """A property judged by the system's default, because the host's own value is unknown."""

    property: str
    value: str
    system: str
    option: str


class Declared(Struct, frozen=True, kw_only=True):
    """Two things that no rule compares, and why: they are independent, or ``through`` judges them."""

    between: tuple[str, str]
    stand: Literal["independent", "through"]
    through: str
    reason: str
    sources: tuple[str, ...] = ()

    @property
    def is_of_components(self) -> bool:
        """Whether both are components, and not one a property or state of the host."""
        return all("==" in name for name in self.between)


ImageRuns = Literal[
    "runs", "runs by minor-version compatibility", "needs forward compatibility", "does not run", "unknown"
]


class ImageAnswer(Struct, frozen=True, kw_only=True):
    """How a container image runs on the host; ``smallest_driver`` without forward compatibility.

    ``nearest`` is the nearest tag of its repository that runs here, "" if the image itself does, or none does.
    """

    name: str
    runs: ImageRuns
    cuda: str = ""
    smallest_driver: str = ""
    nearest: str = ""


Answer = Literal["compatible", "incompatible", "unknown"]


class Verdict(Struct, frozen=True, kw_only=True):
    """The answer of ``check``. ``compatible`` is true for the first of the three verdicts only.

    ``hints`` say what would be compatible; ``security`` names bulletins against the versions. A known conflict decides,
    whatever else is unknown. ``judged_for`` names a host that was detected instead of described.
    """

    schema: Literal["gpustack/check/v1"] = "gpustack/check/v1"
    verdict: Answer
    compatible: bool
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    declared: tuple[Declared, ...] = ()
    security: tuple[Exposure, ...] = ()
    image: ImageAnswer | UnsetType = UNSET
    hints: tuple[str, ...] = ()
    judged_for: str | UnsetType = UNSET
