"""``gpustack explain``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame
from gpustack.cli.asking import Requirements, collect_options, host_and_request
from gpustack.cli.declare import Option, command
from gpustack.cli.live import live_facts
from gpustack.cli.options import HOST_OPTIONS, PLAN_OPTIONS, TextOrJson

if TYPE_CHECKING:
    from gpustack.model.resolution import Resolution


@command(
    "explain",
    example="gpustack explain cuda cudnn --os ubuntu24.04 --gpu L4",
    takes={**HOST_OPTIONS, **PLAN_OPTIONS},
)
def explain(
    options: Mapping[str, Any],
    requirements: Requirements = None,
    format: Annotated[TextOrJson | None, Option("--format", help="text (if none is given) or json.")] = None,
) -> int:
    """Explain every choice: its reasons, why newer versions were rejected, and the sources.

    Takes the options of `gpustack plan`: the plan that is explained can be saved with --out.
    """
    from gpustack.cli.outputs import demand_one
    from gpustack.cli.plan import pending, save_plan
    from gpustack.plan.build import build
    from gpustack.solve.resolve import demand_judged, resolve

    question = collect_options(requirements, options)
    is_shown = demand_one({"--out": question.out}, format and format.value)
    matrix = frame.matrix(question.matrices)
    found, request = host_and_request(matrix, question)
    if question.live:
        matrix = live_facts(matrix, found, question)
    resolution = resolve(matrix, found, request)
    if question.strict:
        demand_judged(resolution)
    code = 0
    if question.out is not None or question.is_exit_detailed:  # no method may be able to install it
        made = build(found, request, resolution, matrix)
        code = pending(made, question)
        if question.out is not None:
            save_plan(made, question.out)
    if is_shown:
        frame.page(frame.to_json(resolution) if format is TextOrJson.JSON else _text(resolution))
    return code


def _text(resolution: "Resolution") -> str:
    lines = []
    for pick in resolution.picks:
        flavour = f", {pick.flavour} kernel modules" if pick.flavour else ""
        lines.append(f"{pick.component} {pick.version} ({pick.method}, {pick.state}{flavour})")
        for reason in pick.reasons:
            lines.append(f"  - {reason.text}")
            lines += [f"    [{source}]" for source in reason.sources]
    for framework in resolution.frameworks or ():
        lines.append(f"{framework.build.component} {framework.build.number} (pip, install)")
        for reason in framework.reasons:
            lines.append(f"  - {reason.text}")
            lines += [f"    [{source}]" for source in reason.sources]
    lines += [f"warning: {text}" for text in resolution.warnings]
    return "\n".join(lines)
