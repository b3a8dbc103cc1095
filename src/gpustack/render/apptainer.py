"""An Apptainer (Singularity) definition: the same commands as a Dockerfile's, in one image without layers."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.model.plan import Plan
from gpustack.render.comments import comment, stack
from gpustack.render.image import base_image, demand
from gpustack.render.image_steps import Group, environment, groups_of, image_groups
from gpustack.render.settings import Settings
from gpustack.visible import is_visible, one_line


def render(plan: Plan, settings: Settings) -> str:
    """The part of the plan that belongs into an image, built by ``apptainer build IMAGE.sif FILE``.

    Raises UnsupportedError for a plan without such a part, or with what a definition cannot express.
    """
    groups = image_groups(plan)
    _demand_expressible(groups)
    image = base_image(plan, settings.image)
    host = plan.host
    head = comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    head += [*stack(plan), *comment("apptainer build NAME.sif THIS-FILE; apptainer exec --nv NAME.sif COMMAND")]
    for text in (*plan.warnings, *left_out_of(plan)):
        head += comment(f"warning: {text}")
    guard = demand(plan) if settings.image else ""
    post = ["set -eu", *([guard] if guard else [])]
    for group in groups:
        for step in group.steps:
            post += comment(f"{step.title}: {step.why}" if step.why else step.title)
        post += [" \\\n    ".join(lines) for lines in group.commands()]
    blocks = [
        f"Bootstrap: docker\nFrom: {image}",
        _section("post", post),
        _section("environment", [f"export {name}={value}" for name, value in environment(plan, groups)]),
        _section("labels", [f"gpustack.plan {plan.digest}", f"org.opencontainers.image.base.name {image}"]),
    ]
    test = _test(plan)
    blocks += [_section("test", test)] if test else []
    return "\n".join([*head, "", "\n\n".join(blocks), ""])


def left_out_of(plan: Plan) -> list[str]:
    """What an image omits from the plan, one sentence each, for the warnings."""
    return groups_of(plan)[1]


def _demand_expressible(groups: list[Group]) -> None:
    """Raise UnsupportedError for what a definition cannot hold exactly."""
    for group in groups:
        for step in group.steps:
            own = next((one for one in step.artifacts if one.own_path), None)
            why = ""
            if own is not None:
                why = f"{own.own_path} would have to stay in the image, which has no layers to leave it in"
            elif not all(is_visible(line) for lines in group.commands() for line in lines):
                why = "a command has an invisible character or several lines"
            if why:
                msg = f"a definition of Apptainer cannot do {one_line(step.title)!r}: {why}"
                raise UnsupportedError(msg, code="not-renderable", hint="use --format dockerfile")


def _section(name: str, lines: list[str]) -> str:
    # A line that begins with a percent sign would begin a section.
    return "\n".join([f"%{name}", *(f"    {line}" for line in lines)])


def _test(plan: Plan) -> list[str]:
    """What the builder runs at the end: the compiler answers with its release, where the plan has one."""
    entry = plan.stack.get("cuda")
    if entry is None or (plan.request.stage or "build") == "runtime":
        return []
    release = ".".join(entry.version.split(".")[:2])
    return ["set -eu", f"nvcc --version | grep -F 'release {release},'"]
