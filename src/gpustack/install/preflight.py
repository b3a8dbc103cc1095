"""Everything that would stop a run, looked for before its first change and told at once."""

from __future__ import annotations

from gpustack.install.executor import Workplace
from gpustack.model.steps import Step


def demand_ready(work: Workplace, steps: list[Step]) -> None:
    """Raise GpustackError with all that stands in the way, each with its cure."""
    del work, steps
