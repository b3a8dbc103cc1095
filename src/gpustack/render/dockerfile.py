"""A Dockerfile for docker, podman and buildah: no driver, pinned packages, caches cleaned in their own layer."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from gpustack.errors import UnsupportedError
from gpustack.model.actions import Link, Make
from gpustack.model.architectures import architecture
from gpustack.model.plan import Plan
from gpustack.plan.commands import spell
from gpustack.render.comments import comment
from gpustack.render.image import base_image
from gpustack.render.image_steps import Group, Lines, groups_of, mounted, shell_lines
from gpustack.render.templating import fill
from gpustack.visible import is_visible, one_line, visible_json

_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_PATH = re.compile(r"(?m)^\s*(?:\*\) )?PATH=(/[A-Za-z0-9_./-]+/bin):\$PATH")
_LOADER = re.compile(r"LD_LIBRARY_PATH=(/[A-Za-z0-9_./-]+)\$\{LD_LIBRARY_PATH:\+")
_KEY = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
_UNPINNED = {"apt": "DL3008", "yum": "DL3033", "zypper": "DL3037", "dnf": "DL3041"}
"""hadolint's rules for packages without a version: common tools of the distribution have none in a plan."""

_WHY_UNPINNED = "archives of distributions keep one version only, so that a pin breaks the build of tomorrow"


class _Parts(NamedTuple):
    """The content of each stage."""

    runtime: list[Group]
    build: list[Group]
    copies: list[str]


def render(plan: Plan) -> str:
    """The part of the plan that belongs into an image. Raises UnsupportedError without one, or without a base image."""
    kept, left_out = groups_of(plan)
    if not kept:
        msg = (
            "nothing in this plan belongs in an image: a container uses the driver and the container engine of its host"
        )
        raise UnsupportedError(
            msg, code="not-renderable", hint="plan cuda, cudnn, tensorrt or ffmpeg with --format dockerfile"
        )
    image = base_image(plan)
    parts = _parts(kept)
    final = [*_environment(plan, kept), _labels(plan)]
    runtime = [_run(plan, group) for group in parts.runtime if group.commands()]
    if parts.build:
        stages = [
            [f"FROM {image} AS runtime", *runtime],
            ["FROM runtime AS build", *(_run(plan, group) for group in parts.build)],
            ["FROM runtime", *parts.copies, *final],
        ]
    else:
        stages = [[f"FROM {image}", *runtime, *final]]
    return fill("dockerfile/Dockerfile.j2", comments=_comments(plan, left_out), stages=stages)


def left_out_of(plan: Plan) -> list[str]:
    """What an image omits from the plan, one sentence each, for the warnings."""
    return groups_of(plan)[1]


def _comments(plan: Plan, left_out: list[str]) -> list[str]:
    host = plan.host
    found = _comment(f"{host.os.name or host.os.spelled}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    built_for = architecture(host.arch)
    own = [one for step in plan.steps for one in step.artifacts if one.own_path]
    for one in own:
        found += _comment(f"the build context holds {one.path.rpartition('/')[2]}: a copy of {one.own_path}")
    if built_for is not None and built_for.image:
        context = "--file THIS-FILE CONTEXT" if own else "- <THIS-FILE"
        found += _comment(f"docker build --platform {built_for.image} --tag NAME {context}; run with --gpus all")
    image = base_image(plan)
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


def _run(plan: Plan, group: Group) -> str:
    texts = [f"{step.title}: {step.why}" if step.why else step.title for step in group.steps]
    comments = [line for text in texts for line in _comment(text)]
    family = plan.host.os.family or ""
    commands = group.commands()
    excuses = {_UNPINNED[family]: _WHY_UNPINNED} if group.unpinned and family in _UNPINNED else {}
    if any(line.endswith("\\'") for lines in commands for line in lines):
        excuses["SC1003"] = "a line of a file ends in a backslash; it is no quote gone wrong"
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
    video = {"ffmpeg", "nv-codec-headers"} & set(plan.stack)
    found = ["", "ENV NVIDIA_VISIBLE_DEVICES=all"]
    found.append("ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility" + (",video" if video else ""))
    texts = [file.content for group in groups for step in group.environment for file in step.files]
    for text in texts:
        path, loader = _PATH.search(text), _LOADER.search(text)
        if path:
            found.append(f"ENV PATH={path[1]}:${{PATH}}")
        if loader:
            found.append(f"ENV LD_LIBRARY_PATH={loader[1]}${{LD_LIBRARY_PATH:+:${{LD_LIBRARY_PATH}}}}")
    return found


def _labels(plan: Plan) -> str:
    pairs = {"gpustack.plan": plan.digest}
    for name, entry in plan.stack.items():
        if _KEY.fullmatch(name) and name not in {"driver", "fabric-manager", "container-toolkit", "triton"}:
            pairs[f"gpustack.{name}"] = entry.version
    return "LABEL " + " \\\n      ".join(f"{name}={_value(text)}" for name, text in pairs.items())


def _value(text: str) -> str:
    """A value in double quotes, where a Dockerfile interprets backslashes, quotes and variables."""
    return '"' + re.sub(r'([\\"$])', r"\\\1", one_line(text)) + '"'
