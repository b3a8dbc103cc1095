"""Toolkits that are older than every compiler that a system packages."""

from __future__ import annotations

from gpustack.model.resolution import Unknown
from gpustack.solve.hostview import OPTIONS
from gpustack.solve.question import Question
from gpustack.solve.rulebook import BoundRule

_FIRST_GCC = 3


def without_compiler(question: Question, component: str, version_text: str) -> Unknown | None:
    """That no GCC that the system packages compiles with this version; None where one does, or one was named or found.

    A version that accepts neither the oldest nor the default is for older ones: the others are between these two.
    """
    view = question.view
    least = view.oldest_gcc
    if (
        not version_text
        or not least
        or not view.is_assumed("gcc")
        or view.has_named_compiler
        or not question.has_to_compile(component)
    ):
        return None
    if question.offers.is_own(component, version_text):
        return None
    defaults = view.values("gcc")
    for bound in question.book.applying(component, version_text).get("gcc", ()):
        if not bound.is_of_compiling or not view.holds(bound.rule, component):
            continue
        older = _newest_before(bound, version_text, least)
        if older and not any(bound.accepts(version_text, value) for value in (*defaults, least)):
            name = view.default("gcc")[1]
            return Unknown(
                reason=(
                    f"{component}=={version_text}: nvcc of this CUDA accepts GCC up to {older}, and the oldest that"
                    f" {name} packages is GCC {least}: take one from an older release, or build it, and name it"
                    f" ({OPTIONS['gcc']} {older})"
                ),
                rule=bound.rule.id,
                needs="gcc",
                option=OPTIONS["gcc"],
                sources=question.matrix.addresses(bound.rule.src),
            )
    return None


def _newest_before(bound: BoundRule, version_text: str, least: str) -> str:
    """The newest GCC that a rule accepts, if all that it accepts are older than the oldest packaged one, else ""."""
    majors = range(int(least.partition(".")[0]) - 1, _FIRST_GCC, -1)
    return next((str(major) for major in majors if bound.accepts(version_text, str(major))), "")
