"""Versions and pairs whose compatibility is unknown: a plan accepts them only if nothing else is compatible."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from gpustack.model.resolution import Unknown
from gpustack.solve.listed import unlisted_gpus
from gpustack.solve.question import Candidate, Question
from gpustack.solve.unjudged import unknown_rules
from gpustack.solve.unknown import (
    COVERED_PAIRS,
    doubt,
    unjudged_release,
    unknown_compilers,
    unknown_kernels,
    unknown_pairs,
    unknown_splits,
)

_COVERED = frozenset(COVERED_PAIRS)


class Doubts:
    """The doubts of one question, each computed once. Installed versions are never in doubt."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._of: dict[tuple[str, str], tuple[Unknown, ...]] = {}
        self._between: dict[tuple[str, str, str, str], tuple[Unknown, ...]] = {}

    def of(self, candidate: Candidate) -> tuple[Unknown, ...]:
        """Why it is unknown whether this version runs on the host; () if it is known, or installed."""
        key = (candidate.component, candidate.version)
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = () if candidate.is_installed else tuple(self._look(candidate))
        return found

    def _look(self, candidate: Candidate) -> list[Unknown]:
        question = self._question
        outside = doubt(question, candidate)
        if not candidate.is_known:
            outside = Unknown(reason=unjudged_release(question, candidate))
        alone = {candidate.component: candidate}
        unlisted = [
            *unlisted_gpus(question, alone),
            *unknown_splits(question, alone),
            *unknown_kernels(question, alone),
            *unknown_compilers(question, alone),
        ]
        return [*([outside] if outside is not None else []), *unlisted, *unknown_rules(question, candidate, {})]

    def between(self, one: Candidate, other: Candidate) -> tuple[Unknown, ...]:
        """Why it is unknown whether two versions are compatible."""
        if one.is_installed and other.is_installed:
            return ()
        key = (one.component, one.version, other.component, other.version)
        found = self._between.get(key)
        if found is None:
            found = self._between[key] = tuple(self._look_between(one, other))
        return found

    def _look_between(self, one: Candidate, other: Candidate) -> list[Unknown]:
        question, picks = self._question, {one.component: one, other.component: other}
        found = unknown_pairs(question, picks) if _is_covered(one, other) else []
        if not question.view.is_known:
            for candidate in (one, other):
                alone = {rule.rule for rule in unknown_rules(question, candidate, {})}
                found += [rule for rule in unknown_rules(question, candidate, picks) if rule.rule not in alone]
        return found

    def of_stack(self, stack: Mapping[str, Candidate | None]) -> tuple[Unknown, ...]:
        """Everything unknown about a whole stack."""
        picks = [candidate for candidate in stack.values() if candidate is not None]
        found = [one for candidate in picks for one in self.of(candidate)]
        for place, one in enumerate(picks):
            found += [doubt for other in picks[place + 1 :] for doubt in self.between(one, other)]
        return tuple(dict.fromkeys(found))


def _is_covered(one: Candidate, other: Candidate) -> bool:
    return any(pair in _COVERED for pair in permutations((one.component, other.component)))
