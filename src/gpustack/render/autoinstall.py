"""An autoinstall fragment for Ubuntu's installer: the user-data that the installed system runs at its first boot."""

from __future__ import annotations

from gpustack.errors import UsageError
from gpustack.model.plan import Plan
from gpustack.render.cloud_init import comments_of, document_of
from gpustack.render.comments import comment
from gpustack.render.yaml_text import Value, lines

_FIRST = (20, 4)
"""Ubuntu's server has this installer from here on."""


def render(plan: Plan) -> str:
    """A part of the installer's own user-data. Raises UsageError for systems without this installer."""
    host = plan.host
    release = tuple(int(part) for part in (host.os.version_id or "0").split(".") if part.isdigit())
    if host.os.id != "ubuntu" or release < _FIRST:
        msg = f"{host.os.called} is not installed by autoinstall, which Ubuntu has from 20.04 on"
        raise UsageError(msg, code="format-unsupported", where="--format", hint="for this plan: --format cloud-init")
    settings: dict[str, Value] = {"version": 1}
    if "driver" in plan.stack:
        # The installer would choose a driver of its own.
        settings["drivers"] = {"install": False}
    settings["user-data"] = document_of(plan)
    added = "add what the machine itself needs: storage, network, identity or users"
    head = ["#cloud-config", *comments_of(plan), *comment(f"a part of an autoinstall configuration: {added}")]
    return "\n".join([*head, "", *lines({"autoinstall": settings}), ""])
