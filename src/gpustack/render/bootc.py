"""A Containerfile for bootc: the image is the machine, so driver, services and kernel arguments belong into it."""

from __future__ import annotations

import json

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model import actions as do
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.plan.former import actions_of
from gpustack.render.commands import is_manual
from gpustack.render.comments import comment, stack
from gpustack.render.dockerfile import instruction, labels
from gpustack.render.image import base_image, demand
from gpustack.render.image_steps import Group
from gpustack.render.settings import Settings
from gpustack.render.templating import fill

_AT_BOOT = frozenset({"note", "reboot", "load-module", "rebuild-initramfs"})
"""Kinds of steps that an image replaces: the machine boots it, with the arguments below."""

_RUNNING = (do.RestartService, do.PullImage, do.RemoveImage, do.StartContainer, do.RemoveContainer)
_EARLY = frozenset({"preflight", "prerequisites", "repositories"})
_KERNEL = "kernel=$(ls /usr/lib/modules)"
_ARGUMENTS = "/usr/lib/bootc/kargs.d/10-gpustack.toml"


def render(plan: Plan, settings: Settings) -> str:
    """The whole plan as an image to boot.

    Raises UsageError for a system without such images, UnsupportedError for a plan that needs a running system.
    """
    host = plan.host
    if host.os.family != "dnf":
        msg = f"no image of {host.os.called} is known that bootc boots"
        raise UsageError(
            msg, code="format-unsupported", where="--format", hint="bootc is for RHEL, its rebuilds and Fedora"
        )
    if not settings.image:
        msg = "the facts know no image that bootc boots"
        raise UsageError(
            msg,
            code="missing-argument",
            where="--base-image",
            hint="name one, for example --base-image quay.io/fedora/fedora-bootc:42",
        )
    steps = [step for step in plan.steps if _why_not(step) is None]
    _demand_possible(steps)
    first = [f"FROM {base_image(plan, settings.image)}"]
    guard = demand(plan)
    if guard:
        first += ["", *comment("refuses an image of another system"), f"RUN {guard}"]
    first += [
        "",
        *comment("what is installed below /usr/local would not reach the machine"),
        "RUN test ! -L /usr/local",
    ]
    blocks = [*first, *_layers(plan, steps), labels(plan, settings.image, frozenset()), "RUN bootc container lint"]
    return fill("dockerfile/Dockerfile.j2", comments=_comments(plan), stages=[blocks])


def left_out_of(plan: Plan) -> list[str]:
    """What an image omits from the plan, one sentence each, for the warnings."""
    return [f"{step.title}: skipped, {why}" for step in plan.steps if (why := _why_not(step))]


def _why_not(step: Step) -> str | None:
    """Why a step is not a part of the image; "" for an obvious reason, None if it is."""
    if step.reboot_after or step.kind in _AT_BOOT or step.phase == "verification" or _is_headers(step):
        return ""
    if is_manual(step):
        return "it must be done by hand"
    if any(isinstance(one, do.EnableSource) and one.needs_account for one in actions_of(step)):
        return "because images are built with the subscription of the machine that builds them"
    return None


def _is_headers(step: Step) -> bool:
    """Whether the step installs the headers of a kernel: the image's own is another one than a host's."""
    return any(
        isinstance(one, do.InstallPackages) and any(name.name.startswith("kernel-devel") for name in one.packages)
        for one in actions_of(step)
    )


def _demand_possible(steps: list[Step]) -> None:
    """Raise UnsupportedError for what only a running system does."""
    for step in steps:
        if any(isinstance(one, _RUNNING) for one in actions_of(step)):
            msg = f"an image cannot do {step.title!r}: nothing runs while it is built"
            raise UnsupportedError(msg, code="not-renderable", hint="leave that component out of the plan")


def _layers(plan: Plan, steps: list[Step]) -> list[str]:
    """The instructions in the plan's own order: sources, kernel headers, driver with its module, all else."""
    driver = [step for step in steps if step.phase == "driver"]
    parts = (
        [step for step in steps if step.phase in _EARLY],
        driver,
        [step for step in steps if step.phase not in _EARLY and step.phase != "driver"],
    )
    early, module, rest = (_instruction(plan, part) for part in parts)
    if not driver:
        return [*early, *rest]
    headers = [
        "",
        *comment("headers of the image's kernel, which is not the one that runs while it is built"),
        *comment("DL3041: the headers are of the kernel's own version"),
        "# hadolint ignore=DL3041",
        f'RUN {_KERNEL} \\\n && dnf -y install "kernel-devel-$kernel" kernel-headers \\\n && dnf clean all',
    ]
    built = f'RUN {_KERNEL} \\\n && if command -v dkms; then dkms autoinstall -k "$kernel"; fi'
    arguments = [f"{name}.blacklist=nouveau,nova_core" for name in ("rd.driver", "modprobe")]
    words = f"kargs = {json.dumps(arguments)}"
    folder = _ARGUMENTS.rpartition("/")[0]
    module += [
        "",
        *comment("the module for that kernel; without one the build ends here"),
        f'{built} \\\n && modinfo -k "$kernel" nvidia',
        "",
        *comment("keeps nouveau and nova away from the GPUs from the first moment on"),
        f"RUN mkdir -p {folder} \\\n && printf '%s\\n' '{words}' >{_ARGUMENTS}",
    ]
    return [*early, *headers, *module, *rest]


def _instruction(plan: Plan, steps: list[Step]) -> list[str]:
    group = Group(name="", steps=tuple(steps))
    return [instruction(plan, group)] if group.commands() else []


def _comments(plan: Plan) -> list[str]:
    host = plan.host
    found = comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    found += [
        *stack(plan),
        *comment("podman build --tag NAME --file THIS-FILE; then bootc switch NAME, or an image builder"),
    ]
    found += comment("where Secure Boot is on, the module has to be signed with a key that the firmware knows")
    for text in (*plan.warnings, *left_out_of(plan)):
        found += comment(f"warning: {text}")
    return found
