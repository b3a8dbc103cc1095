"""The plan document itself."""

from __future__ import annotations

from gpustack.model.plan import Plan
from gpustack.plan.document import dump


def render(plan: Plan) -> str:
    """The exact document, as ``--out`` saves it."""
    return dump(plan)
