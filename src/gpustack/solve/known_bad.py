"""Driver releases that go wrong on this very GPU, kernel or module flavour although no rule refuses them."""

from __future__ import annotations

from functools import cached_property

from gpustack.model.resolution import Unknown
from gpustack.solve.causes import KnownToFail
from gpustack.solve.flavour import flavours
from gpustack.solve.pairs import Pair, pairs_of
from gpustack.solve.question import Candidate, Question
from gpustack.versions import is_within


class KnownBad:
    """The rows that a question can meet; what depends on the host alone is looked up once."""

    def __init__(self, question: Question) -> None:
        self._question = question

    @cached_property
    def _rows(self) -> tuple[Pair, ...]:
        question = self._question
        host, kernels = question.host, question.view.values("kernel")
        is_ours = bool(host.gpus) and not question.view.is_windows and question.may_install("driver")
        kernel = kernels[0] if kernels and not question.view.is_assumed("kernel") else None
        # A setting of the modules is a state of a running host: detect looks at it.
        found = pairs_of(question.matrix, host.gpus, kernel, host.os.repo) if is_ours else ()
        return tuple(row for row in found if not row.setting)

    def of(self, candidate: Candidate) -> tuple[Pair, ...]:
        """The rows about this release of the driver with the modules that it would have here."""
        if candidate.component != "driver" or not self._rows:
            return ()
        found = [row for row in self._rows if is_within(candidate.version, row.driver)]
        if not found:
            return ()
        flavour = self._flavour(candidate)
        return tuple(row for row in found if row.holds(candidate.version, flavour))

    def is_avoided(self, candidate: Candidate) -> bool:
        """Whether another release is taken where one fits."""
        return any(row.effect != "warns" for row in self.of(candidate))

    def _flavour(self, candidate: Candidate) -> str:
        module = self._question.host.module
        if candidate.is_installed and module is not None and module.flavour:
            return module.flavour
        return next(iter(flavours(self._question, candidate.version)), "")

    def refusals(self, candidate: Candidate) -> list[KnownToFail]:
        """Why this release cannot be used here at all. A plan leaves an installed one alone, and warns."""
        question = self._question
        if candidate.is_installed and question.mode == "plan":
            return []
        return [
            KnownToFail(
                reason=_told(row, candidate, question),
                gpu=gpu.called if (gpu := row.gpu_of(question.host.gpus)) is not None else "",
                sources=question.matrix.addresses(row.src),
            )
            for row in self.of(candidate)
            if row.effect == "fails"
        ]


def _told(row: Pair, candidate: Candidate, question: Question) -> str:
    reason = row.reason(candidate.version, question.host.gpus)
    return f"{reason}; {row.helps}" if row.helps else reason


def doubts(question: Question, candidate: Candidate) -> tuple[Unknown, ...]:
    """What is no verdict: the release breaks by a source, and no setting of its modules helps."""
    return tuple(
        Unknown(
            reason=f"driver=={candidate.version}: {_told(row, candidate, question)}",
            sources=question.matrix.addresses(row.src),
        )
        for row in KnownBad(question).of(candidate)
        if row.is_doubt
    )


def warnings(question: Question, candidate: Candidate) -> list[str]:
    """The warnings to add to an answer about this release."""
    rows = KnownBad(question).of(candidate)
    found = (row for row in rows if question.mode == "plan" or not (row.effect == "fails" or row.is_doubt))
    return [_told(row, candidate, question) for row in found]
