"""A Kickstart fragment for Anaconda: the installer writes the script, and the system runs it at its first boot."""

from __future__ import annotations

from gpustack.errors import UsageError
from gpustack.model.plan import Plan
from gpustack.render.comments import comment, stack
from gpustack.render.first_boot import PLAN, RUNNER, RUNNER_TEXT, SERVICE, UNIT, UNIT_TEXT
from gpustack.render.shell import render as script

_INSTALLED_BY_ANACONDA = frozenset(
    {"rhel", "centos", "rocky", "almalinux", "ol", "fedora", "eurolinux", "miraclelinux", "scientific"}
)
_END = "GPUSTACK_FILE"


def render(plan: Plan) -> str:
    """A file for ``%include`` in a kickstart. Raises UsageError for a system that another installer installs."""
    host = plan.host
    if host.os.id not in _INSTALLED_BY_ANACONDA:
        msg = f"Kickstart is a file of Anaconda, which does not install {host.os.called}"
        right = "autoinstall" if host.os.id == "ubuntu" else "cloud-init"
        raise UsageError(
            msg, code="format-unsupported", where="--format", hint=f"for this plan: --format {right} or shell"
        )
    lines = comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    lines += stack(plan)
    lines += comment(
        "in the installer nothing of the plan can run: its kernel is another one, and it has no network yet"
    )
    for text in plan.warnings:
        lines += comment(f"warning: {text}")
    lines += [
        "",
        "%post --interpreter=/bin/sh --erroronfail --log=/var/log/gpustack-kickstart.log",
        "set -eu",
        "umask 022",
    ]
    for path, mode, content in ((PLAN, "0700", script(plan)), (RUNNER, "0700", RUNNER_TEXT), (UNIT, "0644", UNIT_TEXT)):
        lines += _file(path, mode, content)
    return "\n".join([*lines, f"systemctl enable {SERVICE}", "%end", ""])


def _file(path: str, mode: str, content: str) -> list[str]:
    """The commands that write a file. No line of it begins with a percent sign, which would end the section."""
    body = [f"|{line}" for line in content.removesuffix("\n").split("\n")]
    return [f"sed 's/^|//' >{path} <<'{_END}'", *body, _END, f"chmod {mode} {path}"]
