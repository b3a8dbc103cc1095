"""The rows about driver releases that go wrong with some GPU, kernel or module flavour."""

from typing import Literal

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.versions import is_within

SUBJECT = "known-bad"


class Pair(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row: the releases, with which GPUs, kernel, flavour, system and module setting, what happens and what helps.

    ``effect``: fails (the GPU cannot be used), breaks (another release is taken where one fits, and ``check`` has no
    verdict if no module option helps), warns.
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

    def holds(self, version: str, flavour: str | None) -> bool:
        """Whether it is about this release, with modules of this flavour; None or "" is not known."""
        return is_within(version, self.driver) and (not self.flavour or self.flavour == flavour)

    def reason(self, version: str, gpus: tuple[Gpu, ...]) -> str:
        """The sentence about it."""
        gpu = self.gpu_of(gpus)
        return f"driver {version} is known to go wrong on {gpu.called if gpu else 'this GPU'}: {self.says}"

    @property
    def is_doubt(self) -> bool:
        """Whether the release breaks and no module option helps."""
        return self.effect == "breaks" and not self.option

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
