"""Values for the Helm chart of NVIDIA's GPU operator on nodes that get their driver from the plan.

The keys are those of the chart's own values.yaml (deployments/gpu-operator in NVIDIA/gpu-operator, commit a22dbf67 of
2026-08-21).
"""

from __future__ import annotations

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.plan import Plan
from gpustack.render.comments import comment, stack
from gpustack.render.yaml_text import Value, lines


def render(plan: Plan) -> str:
    """Values that keep the operator from installing a second driver or toolkit.

    Raises UnsupportedError for a plan without a driver, and UsageError for a host that is no node of a cluster.
    """
    host = plan.host
    name = host.os.called
    if host.environment in {"wsl", "container"} or host.os.id == "l4t":
        msg = f"{name} ({host.environment or 'Jetson'}) is no node whose GPUs the operator manages"
        raise UsageError(msg, code="format-unsupported", where="--format", hint="plan for the node itself")
    driver = plan.stack["driver"].version if "driver" in plan.stack else _installed(plan, "driver")
    if driver is None:
        msg = "the plan has no driver, so the operator would install its own, whose version depends on the chart"
        raise UnsupportedError(msg, code="not-renderable", hint="plan the nodes' driver: gpustack plan driver ...")
    toolkit = "container-toolkit" in plan.stack or _installed(plan, "container-toolkit") is not None
    values: dict[str, Value] = {"driver": {"enabled": False}, "toolkit": {"enabled": not toolkit}}
    head = comment(f"{name}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    head += stack(plan)
    head += comment("helm install gpu-operator nvidia/gpu-operator --values THIS-FILE, for nodes with this stack")
    whys = {
        f"driver: {driver} is of the nodes, and a second one would collide with it": True,
        "toolkit: it is of the nodes too": toolkit,
        "toolkit: the operator's, as the plan has none": not toolkit,
    }
    for why, applies in whys.items():
        head += comment(why) if applies else []
    for text in plan.warnings:
        head += comment(f"warning: {text}")
    return "\n".join(["---", *head, "", *lines(values), ""])


def _installed(plan: Plan, name: str) -> str | None:
    found = plan.host.installed.get(name)
    return found.version if found is not None else None
