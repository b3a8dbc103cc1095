"""A Packer template (HCL2): the shell form as provisioner, with the plan's reboot between two runs of it."""

from __future__ import annotations

from gpustack.model.plan import Plan
from gpustack.render.comments import comment, stack
from gpustack.render.hcl import heredoc
from gpustack.render.shell import render as script

_SOURCE = """\
# Any machine by SSH. For an image of a cloud, replace this source by the one of its builder (amazon-ebs, azure-arm,
# googlecompute, qemu, ...), and its name in `sources` below.
source "null" "host" {
  ssh_host       = var.host
  ssh_username   = var.user
  ssh_agent_auth = true
  ssh_timeout    = "10m"
}
"""
_VARIABLES = """\
variable "host" {
  type        = string
  description = "Where the plan is carried out."
}

variable "user" {
  type        = string
  default     = "root"
  description = "Root, or a user whose sudo requires no password."
}
"""
_AS_ROOT = (
    '"chmod +x {{ .Path }}; if [ \\"$(id -u)\\" -eq 0 ]; '
    'then {{ .Vars }} {{ .Path }}; else sudo -n {{ .Vars }} {{ .Path }}; fi"'
)
_RUN = """
  # Packer would interpret braces of the script as templates of its own: base64 has none.
  run = join("; ", [
    "set -eu",
    "plan=$(mktemp)",
    "trap 'rm -f -- \\"$plan\\"' EXIT",
    "printf %s '${base64encode(local.script)}' | base64 -d >\\"$plan\\"",
    "sh \\"$plan\\"",
  ])
"""
_PAUSED = 5
"""The script's exit code where a reboot must come first."""


def render(plan: Plan) -> str:
    """A template for ``packer build -var host=ADDRESS FILE.pkr.hcl``."""
    reboots = any(step.reboot_after for step in plan.steps)
    run = {"inline": "[local.run]", "execute_command": _AS_ROOT}
    blocks = [_provisioner(run | ({"valid_exit_codes": f"[0, {_PAUSED}]"} if reboots else {}))]
    if reboots:
        reboot = {"inline": '["systemctl reboot"]', "execute_command": _AS_ROOT, "expect_disconnect": "true"}
        blocks += [_provisioner(reboot), _provisioner(run | {"pause_before": '"30s"'})]
    build = "\n".join(['build {\n  sources = ["source.null.host"]\n', "\n\n".join(blocks), "}", ""])
    values = f"locals {{\n  script = {heredoc(script(plan))}{_RUN}}}\n"
    return "\n".join([*_head(plan), "", _VARIABLES, values, _SOURCE, build])


def _provisioner(settings: dict[str, str]) -> str:
    """A provisioner, aligned as `packer fmt` does."""
    width = max(map(len, settings))
    lines = [f"    {name:<{width}} = {value}" for name, value in settings.items()]
    return "\n".join(['  provisioner "shell" {', *lines, "  }"])


def _head(plan: Plan) -> list[str]:
    host = plan.host
    found = comment(f"{host.os.called}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    found += [*stack(plan), *comment("packer build -var host=ADDRESS THIS-FILE.pkr.hcl")]
    if any(step.phase == "verification" for step in plan.steps):
        found += comment("a machine without a GPU cannot be verified: for such a builder render with --no-verify")
    for text in plan.warnings:
        found += comment(f"warning: {text}")
    return found
