"""The base image of a plan, as a Dockerfile names it."""

from __future__ import annotations

import re
import shlex

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.plan import BaseImage, Plan
from gpustack.render.target import REFUSED, target_of

_NAME = re.compile(r"[a-z0-9]+(?:[._:/@-]+[A-Za-z0-9]+)*")
_DIGEST = re.compile(r"[^@]+(?:@sha256:[0-9a-f]{64})?")
_LONGEST = 500


def base_image(plan: Plan, own: str = "") -> str:
    """The image to start from, with its registry, so that podman need not guess one; ``own`` is the user's.

    Raises UnsupportedError if the plan knows none, and UsageError if the user's name is invalid.
    """
    if own:
        return _own(own)
    name = plan.image.name if isinstance(plan.image, BaseImage) else ""
    if name and len(name) <= _LONGEST and _NAME.fullmatch(name):
        return name
    system = plan.host.os.called
    known = f"the plan names {name!r}" if name else "the facts know none"
    msg = f"no container image is known for {system}: {known}"
    raise UnsupportedError(
        msg,
        code="no-base-image",
        hint="name one: --base-image NAME, or plan for a system of `gpustack matrix show systems` that has one",
    )


def _own(name: str) -> str:
    if len(name) > _LONGEST or not _NAME.fullmatch(name) or not _DIGEST.fullmatch(name):
        msg = f"{name!r} is not the name of an image"
        raise UsageError(
            msg,
            code="invalid-value",
            where="--base-image",
            hint="for example docker.io/library/ubuntu:24.04, with @sha256: and 64 digits to pin it",
        )
    return name


def demand(plan: Plan) -> str:
    """One shell command that exits with 4 in an image of another system than the plan's."""
    target = target_of(plan)
    if not target.id:
        return ""
    wanted = f"{target.id} {target.version}".rstrip()
    patterns = f"{shlex.quote(wanted)}|{shlex.quote(f'{wanted}.')}*" if target.version else f"{shlex.quote(wanted)}*"
    told = shlex.quote(f"this image is not of the plan's system, {target.name}:")
    return (
        f'. /etc/os-release; case "${{ID:-}} ${{VERSION_ID:-}}" in {patterns}) ;; '
        f'*) echo {told} "${{ID:-}} ${{VERSION_ID:-}}" >&2; exit {REFUSED} ;; esac'
    )
