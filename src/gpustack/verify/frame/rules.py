"""The matrix's rules, asked about what is installed. Reads the solver's own rule book, so both always agree.

The rule book is imported when the first question is asked: most of a host without NVIDIA's software raises none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.facts import Rule
from gpustack.model.host import Gpu, Host
from gpustack.versions import version

if TYPE_CHECKING:
    from gpustack.solve.rulebook import BoundRule


class Fit(Struct, frozen=True, kw_only=True):
    """How two things go together. ``covered``: some fact speaks of them; ``breach``/``advice``: a rule not kept."""

    covered: bool
    breach: Rule | None = None
    advice: Rule | None = None

    def sentence(self, subject: str) -> str:
        """What the rule that is not kept demands of ``subject``; "" when all are kept."""
        from gpustack.solve.words import rule_in_words  # noqa: PLC0415

        rule = self.breach or self.advice
        return rule_in_words(rule, subject) if rule else ""

    @property
    def wanted(self) -> str:
        """The versions that the rule not kept would accept, in words; "" when all are kept or it is an exclusion."""
        from gpustack.solve.words import ranges_in_words  # noqa: PLC0415

        rule = self.breach or self.advice
        return ranges_in_words(rule.any) if rule else ""


class Part(Struct, frozen=True):
    """A component, or a property of the host, with the version that is there."""

    name: str
    version: str

    def __str__(self) -> str:
        from gpustack.solve.words import title  # noqa: PLC0415

        return f"{title(self.name)} {self.version}"


def fit(matrix: Matrix, host: Host, one: Part, other: Part) -> Fit:
    """How ``one`` and ``other`` go together on ``host``, by the rules of either about the other.

    Raises ValueError where a version is none.
    """
    from gpustack.solve.hostview import HostView  # noqa: PLC0415

    view = HostView(host)
    breach: Rule | None = None
    advice: Rule | None = None
    covered = False
    for subject, obj in ((one, other), (other, one)):
        for bound in _bound(matrix, subject, obj.name):
            if not view.holds(bound.rule.when, subject.name):
                continue
            kept = bound.accepts(subject.version, obj.version)
            covered = covered or not bound.is_advice
            if not kept and bound.is_advice:
                advice = advice or bound.rule
            elif not kept:
                breach = breach or bound.rule
    return Fit(covered=covered, breach=breach, advice=advice)


def of_gpu(host: Host, gpu: Gpu) -> Host:
    """``host`` as if ``gpu`` were its only one, so that conditions are about this GPU."""
    return msgspec.structs.replace(host, gpus=(gpu,))


def same(one: str | None, other: str | None) -> bool:
    """Whether two versions are the same to the last number. Raises ValueError where one is none."""
    return one is not None and other is not None and version(one) == version(other)


def _bound(matrix: Matrix, subject: Part, other: str) -> tuple[BoundRule, ...]:
    from gpustack.solve.rulebook import rule_book  # noqa: PLC0415

    return rule_book(matrix).applying(subject.name, subject.version).get(other, ())
