"""Which flavours of the kernel module do not support a GPU, by the matrix."""

from __future__ import annotations

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.solve.flavour import FlavourRule
from gpustack.versions import is_within


class FlavourFact(FlavourRule, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel module flavour that a driver does not support on some GPUs. ``verdict``: impossible or unsupported."""

    verdict: str = ""
    text: str = ""


def flavour_facts(matrix: Matrix, driver: str, flavour: str, gpu: Gpu) -> tuple[FlavourFact, ...]:
    """The facts against this flavour of this driver's module on this GPU."""
    return tuple(
        fact
        for fact in matrix.rows("driver", "flavour_rules", FlavourFact)
        if fact.flavour == flavour and is_within(driver, fact.driver) and _concerns(fact, gpu)
    )


def _concerns(fact: FlavourFact, gpu: Gpu) -> bool:
    capability = gpu.compute_capability
    if fact.compute_capability and not (capability and is_within(capability, fact.compute_capability)):
        return False
    return not fact.gpus or any(name in (gpu.name or "") for name in fact.gpus)
