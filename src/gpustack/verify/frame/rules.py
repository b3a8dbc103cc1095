"""Compatibility of what is installed, by the matrix's rules. Reads the solver's rule book, so both always agree.

The rule book is imported with the first question: a host without NVIDIA's software raises none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.facts import Rule
from gpustack.model.host import Gpu
from gpustack.verify.declare import Context, Outcome, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.versions import version

if TYPE_CHECKING:
    from gpustack.solve.rulebook import BoundRule

RELEASE_NUMBERS = 3
"""Numbers of a version that identify a release (cuDNN 9.14.0); a fourth is a build number that only packages have."""


class Part(Struct, frozen=True):
    """A component or a property of the host, with the version that was found.

    ``called`` replaces title and version in sentences. ``gpu`` is the GPU whose property it is: conditions of rules
    are then about this GPU alone.
    """

    name: str
    version: str
    called: str = ""
    gpu: Gpu | None = None

    def __str__(self) -> str:
        return self.called or self.titled

    @property
    def titled(self) -> str:
        """Title and version, such as "CUDA 13.0"."""
        from gpustack.solve.words import title  # noqa: PLC0415

        return f"{title(self.name)} {self.version}"


class Fit(Struct, frozen=True, kw_only=True):
    """Whether two parts are compatible. ``covered``: some fact is about them; ``breach``/``advice``: a broken rule.

    ``subject`` is the part that the broken rule binds.
    """

    covered: bool
    breach: Rule | None = None
    advice: Rule | None = None
    subject: Part | None = None

    @property
    def sentence(self) -> str:
        """What the broken rule requires; "" when none is broken."""
        from gpustack.solve.words import rule_in_words  # noqa: PLC0415

        rule = self.breach or self.advice
        return rule_in_words(rule, str(self.subject)) if rule else ""

    @property
    def wanted(self) -> str:
        """The versions that the broken rule would accept, in words; "" when none is broken or it is an exclusion."""
        from gpustack.solve.words import ranges_in_words  # noqa: PLC0415

        rule = self.breach or self.advice
        return ranges_in_words(rule.any) if rule else ""


def fit(context: Context, one: Part, other: Part) -> Fit:
    """Whether ``one`` and ``other`` are compatible on this host, by the rules of either about the other.

    Raises ValueError where a version is not one.
    """
    from gpustack.solve.hostview import HostView  # noqa: PLC0415

    gpu = one.gpu or other.gpu
    host = msgspec.structs.replace(context.host, gpus=(gpu,)) if gpu else context.host
    view = HostView(host)
    breach: tuple[Rule, Part] | None = None
    advice: tuple[Rule, Part] | None = None
    covered = False
    for subject, obj in ((one, other), (other, one)):
        for bound in _bound(context.matrix, subject, obj.name):
            if not view.holds(bound.rule, subject.name):
                continue
            kept = bound.accepts(subject.version, obj.version)
            covered = covered or not bound.is_advice
            if not kept and bound.is_advice:
                advice = advice or (bound.rule, subject)
            elif not kept:
                breach = breach or (bound.rule, subject)
    return Fit(
        covered=covered,
        breach=breach[0] if breach else None,
        advice=advice[0] if advice else None,
        subject=(breach or advice or (None, None))[1],
    )


def judge_fit(context: Context, part: Part, *others: Part, fix: str = "", needs_all: bool = True) -> Outcome:
    """Whether ``part`` is compatible with each of ``others``, as the outcome of a check.

    Where no fact covers a pair, the outcome is a skip; unless ``needs_all`` is set, only if no pair is covered.
    """
    unknown: list[str] = []
    known: list[str] = []
    remarks: list[str] = []
    for other in others:
        answer = fit(context, part, other)
        if answer.breach:
            return incompatible(part, other, answer, fix)
        (known if answer.covered else unknown).append(str(other))
        if answer.covered and answer.advice:
            remarks.append(answer.sentence)
    if unknown and (needs_all or not known):
        return skipped(f"compatibility of {part} with {', '.join(unknown)} is unknown")
    return passed("; ".join((f"{part} is compatible with {', '.join(known)}", *remarks)))


def incompatible(part: Part, other: Part, answer: Fit, fix: str = "") -> Outcome:
    """The failure where a rule between two parts is broken."""
    asked = part if answer.subject == other else other
    return failed(
        f"{part} is not compatible with {other}: {answer.sentence}",
        fix,
        expected=Part(asked.name, answer.wanted).titled if answer.wanted else "",
        actual=asked.titled,
    )


def compute_capability_of(gpu: Gpu) -> Part | None:
    """The compute capability of ``gpu``; None where it is not known."""
    if not gpu.compute_capability:
        return None
    place = f"{gpu.bus_id}, " if gpu.bus_id else ""
    called = f"{gpu.called} ({place}compute capability {gpu.compute_capability})"
    return Part("compute-capability", gpu.compute_capability, called, gpu)


def full_version(context: Context, component: str, number: str) -> str:
    """``number`` with the build number that files lack: as installed, else of the release in the matrix."""
    installed = host_facts.installed_version(context.host, component)
    releases = (release.version for release in context.matrix.releases(component))
    candidates = (*((installed,) if installed else ()), *releases)
    return next((full for full in candidates if same_release(full, number)), number)


def same_release(one: str, other: str) -> bool:
    """Whether two versions agree in as many numbers as both have, at most three."""
    left, right = (version(text).numbers[:RELEASE_NUMBERS] for text in (one, other))
    length = min(len(left), len(right))
    return left[:length] == right[:length]


def same(one: str | None, other: str | None) -> bool:
    """Whether two versions are identical. Raises ValueError if one is not a version."""
    return one is not None and other is not None and version(one) == version(other)


def _bound(matrix: Matrix, subject: Part, other: str) -> tuple[BoundRule, ...]:
    from gpustack.solve.rulebook import rule_book  # noqa: PLC0415

    return rule_book(matrix).applying(subject.name, subject.version).get(other, ())
