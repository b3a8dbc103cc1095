"""The short user-data for images that contain gpustack: it calls gpustack and continues after a reboot."""

from __future__ import annotations

import shlex

from gpustack.errors import UsageError
from gpustack.model.plan import Plan
from gpustack.render.cloud_init import BOOT_ID, STAGE, head, sized
from gpustack.render.templating import fill
from gpustack.render.yaml_text import Text, Value

_HOOK = "/var/lib/cloud/scripts/per-boot/gpustack-install.sh"
_EARLIER = f"{STAGE}/boot-id"
_PAUSED = 5
"""The exit code of ``gpustack install`` if a reboot must come first."""


def render(plan: Plan) -> str:
    """User-data with a script that installs the plan's stack. Raises UsageError for hosts without cloud-init."""
    if plan.host.os.family == "windows":
        msg = f"{plan.host.os.called} cannot run the format 'cloud-init'"
        raise UsageError(msg, code="format-unsupported", where="--format", hint="for this plan: --format powershell")
    resume = shlex.join(("gpustack", "install", "--resume", "--yes", "--reboot", "never"))
    script = fill(
        "cloud-init/hook.sh.j2",
        install=shlex.join(_install(plan)),
        resume=resume,
        earlier=_EARLIER,
        boot_id=BOOT_ID,
        stage=STAGE,
        paused=_PAUSED,
    )
    document: dict[str, Value] = {
        "write_files": [{"path": _HOOK, "permissions": "0700", "content": Text(script)}],
        "power_state": {
            "mode": "reboot",
            "message": "gpustack install continues after this reboot",
            "condition": f"test -e {_EARLIER}",
        },
    }
    return sized(document, head(plan))


def _install(plan: Plan) -> tuple[str, ...]:
    """The call that installs this stack, in these versions and by these methods, on the machine that runs it."""
    words = ["gpustack", "install", "--yes", "--reboot", "never"]
    request = plan.request
    for name, method in request.methods.items():
        words += ["--method", f"{name}={method}" if name else method]
    words += ["--policy", request.policy] if request.policy != "production" else []
    words += ["--kernel-module", request.kernel_module] if request.kernel_module != "auto" else []
    words += ["--target", request.target] if request.target else []
    words += [f"--upgrade={name}" for name in request.upgrades or ()]
    return (*words, "--", *(f"{name}=={entry.version}" for name, entry in plan.stack.items()))
