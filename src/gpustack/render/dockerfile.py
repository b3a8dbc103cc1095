"""A Dockerfile for docker, podman and buildah: no driver, pinned packages, caches cleaned in their own layer."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from gpustack.errors import UsageError
from gpustack.model.actions import Link, Make
from gpustack.model.architectures import architecture
from gpustack.model.plan import Plan
from gpustack.plan.commands import spell
from gpustack.render.comments import comment
from gpustack.render.image import base_image, demand
from gpustack.render.image_steps import (
    OF_THE_HOST,
    Group,
    Lines,
    environment,
    groups_of,
    image_groups,
    mounted,
    shell_lines,
)
from gpustack.render.settings import Settings
from gpustack.render.templating import fill
from gpustack.visible import is_visible, one_line, visible_json

_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_KEY = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_UNPINNED = {"apt": "DL3008", "yum": "DL3033", "zypper": "DL3037", "dnf": "DL3041"}
"""hadolint's rules for packages without a version: common tools of the distribution have none in a plan."""

_NONE = Settings()
_WHY_UNPINNED = "archives of distributions keep one version only, so that a pin breaks the build of tomorrow"


class _Parts(NamedTuple):
    """The content of each stage."""

    runtime: list[Group]
    build: list[Group]
    copies: list[str]


def render(plan: Plan, settings: Settings = _NONE) -> str:
    """The part of the plan that belongs into an image.

    Raises UnsupportedError without such a part or without a base image, UsageError for an invalid one of the user's.
    """
    stages = _stages(plan, settings.image)
    return fill("dockerfile/Dockerfile.j2", comments=_comments(plan, groups_of(plan)[1], settings.image), stages=stages)


def render_stages(build: Plan, runtime: Plan, settings: Settings = _NONE) -> str:
    """Two plans of one stack as two images: ``devel``, to build programs in, and ``runtime``, to run them.

    Raises UsageError if they are not the two stages of one stack.
    """
    _demand_one_stack(build, runtime)
    image = settings.image
    comments = _comments(build, groups_of(build)[1], image)
    comments += _comment("two images: --target devel has compilers and headers; the last one only the libraries")
    stages = [*_stages(build, image, "devel"), *_stages(runtime, image, "runtime")]
    stages[-1] += ["", *_comment("what was built: COPY --from=devel /PATH /PATH")]
    return fill("dockerfile/Dockerfile.j2", comments=comments, stages=stages)


def _demand_one_stack(build: Plan, runtime: Plan) -> None:
    stages = (build.request.stage or "build", runtime.request.stage or "build")
    why = ""
    if stages != ("build", "runtime"):
        why = f"the plans are of the stages {' and '.join(stages)}"
    elif (build.host.os, build.host.arch) != (runtime.host.os, runtime.host.arch):
        why = "the plans are for different hosts"
    else:
        versions = {name: one.version for name, one in build.stack.items() if name not in OF_THE_HOST}
        others = {name: one.version for name, one in runtime.stack.items() if name not in OF_THE_HOST}
        if any(versions.get(name, version) != version for name, version in others.items()):
            why = "the plans have different versions"
    if why:
        msg = f"a Dockerfile of two stages is made of one stack, and {why}"
        raise UsageError(
            msg,
            code="conflicting-options",
            hint="make the second plan by the same words with --stage runtime: render BUILD.json RUNTIME.json",
        )


def _stages(plan: Plan, own: str, name: str = "") -> list[list[str]]:
    """The stages of one image; the last one is called ``name``."""
    kept = image_groups(plan)
    image = base_image(plan, own)
    guard = demand(plan) if own else ""
    first = ["", *_comment("refuses an image of another system"), f"RUN {guard}"] if guard else []
    parts = _parts(kept)
    final = [*_environment(plan, kept), labels(plan, image)]
    runtime = [*first, *(instruction(plan, group) for group in parts.runtime if group.commands())]
    called = f" AS {name}" if name else ""
    if not parts.build:
        return [[f"FROM {image}{called}", *runtime, *final]]
    base, build = (f"{name}-base", f"{name}-build") if name else ("runtime", "build")
    copies = [text.replace("--from=build ", f"--from={build} ") for text in parts.copies]
    return [
        [f"FROM {image} AS {base}", *runtime],
        [f"FROM {base} AS {build}", *(instruction(plan, group) for group in parts.build)],
        [f"FROM {base}{called}", *copies, *final],
    ]


def left_out_of(plan: Plan) -> list[str]:
    """What an image omits from the plan, one sentence each, for the warnings."""
    return groups_of(plan)[1]


def _comments(plan: Plan, left_out: list[str], own: str) -> list[str]:
    host = plan.host
    found = _comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    built_for = architecture(host.arch)
    files = [one for step in plan.steps for one in step.artifacts if one.own_path]
    for one in files:
        found += _comment(f"the build context holds {one.path.rpartition('/')[2]}: a copy of {one.own_path}")
    if built_for is not None and built_for.image:
        context = "--file THIS-FILE CONTEXT" if files else "- <THIS-FILE"
        found += _comment(f"docker build --platform {built_for.image} --tag NAME {context}; run with --gpus all")
    image = base_image(plan, own)
    release = re.search(r":(\d+\.\d+)(?:-[\w.]+)?$", image)
    if release and "." in (host.os.version_id or "") and release[1] != host.os.version_id:
        found += _comment(
            f"the image is of release {release[1]}, the host of {host.os.version_id}: a container has programs and "
            "libraries of its own and shares the kernel only"
        )
    for text in (*plan.warnings, *left_out):
        found += _comment(f"warning: {text}")
    return found


def _comment(text: str) -> list[str]:
    # "# word=value" at the head of a Dockerfile would be a parser directive.
    plain = one_line(text).replace("=", " = ") if re.match(r"\w+\s*=", one_line(text)) else one_line(text)
    return comment(plain, more="#   ")


def _parts(groups: list[Group]) -> _Parts:
    """Sources are built in a separate stage, and only what they install is copied from it."""
    build = [group for group in groups if any(step.kind == "build" for step in group.steps)]
    copies: list[str] = []
    for group in build:
        found = _copies(group)
        if not found:
            return _Parts(groups, [], [])
        copies += found
    return _Parts([group for group in groups if group not in build], build, copies)


def _copies(group: Group) -> list[str]:
    """The instructions that copy what a group has built; none if that is unknown."""
    built = [path for action in group.actions if isinstance(action, Make) for path in action.touches]
    links = [shell_lines(argv) for action in group.actions if isinstance(action, Link) for argv in spell(action)]
    return [*map(_copy, built), *([_shell(links)] if links else [])] if built else []


def _copy(path: str) -> str:
    if _PLAIN.fullmatch(path):
        return f"COPY --from=build {path} {path}"
    return f"COPY --from=build {json.dumps([path, path])}"


def instruction(plan: Plan, group: Group) -> str:
    """One RUN with the steps of a layer, and their reasons above it."""
    texts = [f"{step.title}: {step.why}" if step.why else step.title for step in group.steps]
    comments = [line for text in texts for line in _comment(text)]
    family = plan.host.os.family or ""
    commands = group.commands()
    excuses = {_UNPINNED[family]: _WHY_UNPINNED} if group.unpinned and family in _UNPINNED else {}
    if any(line.endswith("\\'") for lines in commands for line in lines):
        excuses["SC1003"] = "a line of a file ends in a backslash; it is no quote gone wrong"
    if any("$" in file.content for step in group.steps for file in step.files):
        excuses["SC2016"] = "lines of a file, which no shell expands here"
    ignored = [line for rule, why in excuses.items() for line in _comment(f"{rule}: {why}")]
    ignored += [f"# hadolint ignore={','.join(excuses)}"] if excuses else []
    return "\n".join(["", *comments, *ignored, _shell(commands, _mounts(group))])


def _mounts(group: Group) -> str:
    """The files of the user's own that a group takes from the build context, without a layer of their own."""
    own = [one for step in group.steps for one in step.artifacts if one.own_path]
    return "".join(
        f"--mount=type=bind,source={one.path.rpartition('/')[2]},target={mounted(one)} \\\n    " for one in own
    )


def _shell(commands: list[Lines], mounts: str = "") -> str:
    """One RUN for all commands. What a line of a Dockerfile cannot express uses its JSON form."""
    if all(is_visible(line) for lines in commands for line in lines):
        return f"RUN {mounts}" + " \\\n && ".join(" \\\n      ".join(lines) for lines in commands)
    script = " && ".join(" ".join(lines) for lines in commands)
    return f"RUN {mounts}" + visible_json(json.dumps(["/bin/sh", "-c", script]))


def _environment(plan: Plan, groups: list[Group]) -> list[str]:
    return ["", *(f"ENV {name}={value}" for name, value in environment(plan, groups))]


def labels(plan: Plan, image: str, of_the_host: frozenset[str] = OF_THE_HOST) -> str:
    """What the image is made of, in OCI's words and our own."""
    name, _, digest = image.partition("@")
    pairs = {"org.opencontainers.image.base.name": name}
    pairs |= {"org.opencontainers.image.base.digest": digest} if digest else {}
    pairs["gpustack.plan"] = plan.digest
    for name, entry in plan.stack.items():
        if _KEY.fullmatch(name) and name not in of_the_host:
            pairs[f"gpustack.{name}"] = entry.version
    return "LABEL " + " \\\n      ".join(f"{name}={_value(text)}" for name, text in pairs.items())


def _value(text: str) -> str:
    """A value in double quotes, where a Dockerfile interprets backslashes, quotes and variables."""
    return '"' + re.sub(r'([\\"$])', r"\\\1", one_line(text)) + '"'
