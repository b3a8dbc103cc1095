"""Terraform (OpenTofu): the plan's user-data as outputs, which refuse another image, architecture or size."""

from __future__ import annotations

from gpustack.model.plan import Plan
from gpustack.render.cloud_init import LIMIT
from gpustack.render.cloud_init import render as user_data
from gpustack.render.comments import comment, stack
from gpustack.render.hcl import heredoc, quoted

_MACHINES = {"x86_64": ("x86_64", "amd64"), "aarch64": ("arm64", "aarch64")}
"""The words of clouds for an architecture."""

_TEMPLATE = """\
terraform {{
  required_version = ">= 1.2"
}}

variable "gpustack_system" {{
  type        = string
  description = "The system of the image that is booted: its ID and VERSION_ID of os-release."

  validation {{
    condition     = var.gpustack_system == {system}
    error_message = {other_system}
  }}
}}

variable "gpustack_architecture" {{
  type        = string
  description = "The architecture of the image that is booted, in the words of the cloud."

  validation {{
    condition     = contains([{machines}], var.gpustack_architecture)
    error_message = {other_machine}
  }}
}}

variable "gpustack_limit" {{
  type        = number
  default     = {limit}
  description = "How many bytes of user-data the cloud takes: 16384 is EC2's limit."
}}

variable "gpustack_compressed" {{
  type        = bool
  default     = false
  description = "Whether gpustack_user_data_gzip is used, so that the limit is for its size."
}}

locals {{
  gpustack_gzip_size = length(base64gzip(local.gpustack_user_data)) * 3 / 4
  gpustack_user_data = {text}}}

output "gpustack_user_data" {{
  description = "User-data as text."
  value       = local.gpustack_user_data

  precondition {{
    condition     = var.gpustack_compressed || length(local.gpustack_user_data) <= var.gpustack_limit
    error_message = "The user-data is larger than the limit: use gpustack_user_data_gzip, gpustack_compressed = true."
  }}
}}

output "gpustack_user_data_gzip" {{
  description = "The same compressed, in base64: for user_data_base64 of aws_instance, custom_data of Azure."
  value       = base64gzip(local.gpustack_user_data)

  precondition {{
    condition     = !var.gpustack_compressed || local.gpustack_gzip_size <= var.gpustack_limit
    error_message = "The user-data is larger than the limit, compressed too."
  }}
}}
"""


def render(plan: Plan) -> str:
    """A module of one file; a missing or wrong answer to its two questions ends ``terraform plan``."""
    host = plan.host
    system = f"{host.os.id or ''} {host.os.version_id or host.os.release}".strip()
    machines = _MACHINES.get(host.arch or "", (host.arch or "",))
    name = host.os.called
    head = comment(f"{name}, {host.arch or 'unknown architecture'}: plan {plan.digest}")
    head += stack(plan)
    for text in plan.warnings:
        head += comment(f"warning: {text}")
    body = _TEMPLATE.format(
        system=quoted(system),
        other_system=quoted(f"The plan is for {name}: {system}."),
        machines=", ".join(map(quoted, machines)),
        other_machine=quoted(f"The plan is for {' or '.join(machines)}."),
        limit=LIMIT,
        text=heredoc(user_data(plan)),
    )
    return "\n".join([*head, "", body])
