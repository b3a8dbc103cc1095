"""Driver releases that go wrong on this very GPU, kernel or module flavour although no rule refuses them."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.model.resolution import Conflict
from gpustack.solve.flavour import flavours
from gpustack.solve.question import Candidate, Question
from gpustack.versions import is_within

SUBJECT = "known-bad"


class Pair(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row: the releases, with which GPUs, kernel, flavour, system and module setting, what happens and what helps.

    ``effect``: fails (the GPU cannot be used), breaks (another release is taken where one fits), warns.
    """

    id: str
    driver: str
    effect: Literal["fails", "breaks", "warns"]
    says: str
    fix: str = ""
    option: str = ""
    kernel: str = ""
    flavour: str = ""
    repo: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    compute_capability: str = ""
    kind: str = ""
    mig: bool = False
    setting: str = ""
    src: tuple[str, ...] = ()

    def gpu_of(self, gpus: tuple[Gpu, ...]) -> Gpu | None:
        """The first GPU that the row speaks of."""
        return next((gpu for gpu in gpus if self._is_about(gpu)), None)

    def _is_about(self, gpu: Gpu) -> bool:
        capability = gpu.compute_capability
        return (
            (not self.gpus or gpu.name in self.gpus)
            and (not self.kind or gpu.kind == self.kind)
            and (not self.mig or gpu.is_mig)
            and (not self.compute_capability or bool(capability and is_within(capability, self.compute_capability)))
        )

    def holds(self, version: str, flavour: str) -> bool:
        """Whether it is about this release, with modules of this flavour ("" is not known)."""
        return is_within(version, self.driver) and (not self.flavour or self.flavour == flavour)

    def reason(self, version: str, gpus: tuple[Gpu, ...]) -> str:
        """The sentence that tells of it."""
        gpu = self.gpu_of(gpus)
        return f"driver {version} is known to go wrong on {gpu.called if gpu else 'this GPU'}: {self.says}"

    @property
    def helps(self) -> str:
        """What helps, as a sentence without a system's own commands."""
        option = f"the module option `options {self.option}` in /etc/modprobe.d helps" if self.option else ""
        return "; ".join(part for part in (option, self.fix) if part)


def pairs_of(matrix: Matrix, gpus: tuple[Gpu, ...], kernel: str | None, repo: str | None) -> tuple[Pair, ...]:
    """The rows about these GPUs, this kernel and this system, whatever the release."""
    return tuple(
        row
        for row in matrix.rows(SUBJECT, "pairs", Pair)
        if row.gpu_of(gpus) is not None
        and (not row.kernel or bool(kernel and is_within(kernel, row.kernel)))
        and (not row.repo or repo in row.repo)
    )


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


def conflicts(question: Question, candidate: Candidate) -> tuple[Conflict, ...]:
    """What cannot run at all with this release."""
    gpus = question.host.gpus
    return tuple(
        Conflict(
            kind="known-bad",
            between=(f"driver=={candidate.version}", f"gpu: {gpu.called if (gpu := row.gpu_of(gpus)) else ''}"),
            reason=f"{row.reason(candidate.version, gpus)}{f'; {row.helps}' if row.helps else ''}.",
            sources=question.matrix.addresses(row.src),
        )
        for row in KnownBad(question).of(candidate)
        if row.effect == "fails"
    )


def warnings(question: Question, candidate: Candidate) -> list[str]:
    """What is told beside an answer about this release."""
    found = (row for row in KnownBad(question).of(candidate) if row.effect != "fails" or question.mode == "plan")
    return [
        f"{row.reason(candidate.version, question.host.gpus)}{f'; {row.helps}' if row.helps else ''}" for row in found
    ]
