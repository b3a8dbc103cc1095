"""The base image of a plan, as a Dockerfile names it."""

from __future__ import annotations

import re

from gpustack.errors import UnsupportedError
from gpustack.model.plan import BaseImage, Plan

_NAME = re.compile(r"[a-z0-9]+(?:[._:/@-]+[A-Za-z0-9]+)*")
_LONGEST = 500


def base_image(plan: Plan) -> str:
    """The image to start from, with its registry, so that podman need not guess one.

    Raises UnsupportedError if the plan knows none, or its name is invalid.
    """
    name = plan.image.name if isinstance(plan.image, BaseImage) else ""
    if name and len(name) <= _LONGEST and _NAME.fullmatch(name):
        return name
    system = plan.host.os.name or plan.host.os.spelled
    known = f"the plan names {name!r}" if name else "the facts know none"
    msg = f"no container image is known for {system}: {known}"
    raise UnsupportedError(
        msg, code="no-base-image", hint="plan for a system that has one: `gpustack matrix show systems` lists them"
    )
