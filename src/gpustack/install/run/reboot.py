"""Stopping for a reboot, and a systemd unit that continues after it and removes itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.install.changes.backups import remove
from gpustack.install.journal.records import Outcome
from gpustack.install.lock.timer import quoted
from gpustack.install.root import InstallRoot
from gpustack.install.run.executor import PausedError, Workplace
from gpustack.model.steps import Step
from gpustack.system.files import write_atomically

NAME = "gpustack-resume.service"
UNIT = Path("/etc/systemd/system") / NAME
WANTED = Path("/etc/systemd/system/multi-user.target.wants") / NAME
_PASSED = (
    *("GPUSTACK_CACHE", "GPUSTACK_FACTS", "XDG_CACHE_HOME"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)
"""Variables for folders and downloads: a resumed run keeps those of its beginning. Mirrors and other options are in its
journal."""


def reboot_step(work: Workplace, step: Step) -> Outcome:
    """Succeeds if the machine has rebooted since the request. Raises PausedError otherwise."""
    if not work.target.is_live:
        work.report.say("skipped: a tree cannot be rebooted")
        return "skipped"
    former = work.history.steps.get(step.id)
    if former is not None and former.asked_in and work.journal.boot and former.asked_in != work.journal.boot:
        return "done"
    policy = work.options.reboot
    if policy == "now" or (policy == "ask" and work.report.ask("Reboot now and continue automatically afterwards?")):
        msg = "the machine reboots and continues by itself"
        raise PausedError(msg, hint=RESTART)
    msg = f"a reboot is required: {step.why}"
    raise PausedError(msg, hint="reboot, then `gpustack install --resume`")


RESTART = f"`journalctl -u {NAME}` shows its progress"
"""The hint of a pause that ends by itself; the caller reboots."""


def unit(state: Path) -> str:
    """The unit that resumes the run after the next boot."""
    variables = {"PYTHONPATH": str(Path(__file__).parents[3])}
    variables |= {name: os.environ[name].replace("\n", " ") for name in _PASSED if os.environ.get(name)}
    return "\n".join(
        [
            "[Unit]",
            "Description=Resume the interrupted gpustack installation",
            "Wants=network-online.target",
            "After=network-online.target",
            "ConditionPathExists=" + f"{state}/runs".replace("%", "%%"),
            "",
            "[Service]",
            "Type=oneshot",
            *(f"Environment={quoted(f'{name}={value}')}" for name, value in variables.items()),
            f"ExecStart={quoted(sys.executable)} -m gpustack install --resume --yes --reboot now",
            "TimeoutStartSec=infinity",
            "# A pause for a further reboot is no failure.",
            "SuccessExitStatus=5",
            "",
        ]
    )


def arrange(state: Path) -> None:
    """Write the unit and enable it for the next boot. Raises GpustackError without systemd."""
    if not Path("/run/systemd/system").is_dir():
        msg = "this machine was not booted by systemd, so a run does not continue by itself after a reboot"
        raise GpustackError(msg, code="no-systemd", hint="reboot, then `gpustack install --resume`")
    # Readable by root only: the address of a proxy may contain a password.
    write_atomically(UNIT, unit(state), mode=0o600)
    WANTED.parent.mkdir(parents=True, exist_ok=True)
    remove(WANTED)
    WANTED.symlink_to(UNIT)


def take_away() -> None:
    """Remove the unit; a missing one is not an error."""
    remove(WANTED)
    remove(UNIT)


def take_away_from(target: InstallRoot) -> None:
    """The same, for a run that stops or ends: no later boot resumes it."""
    if target.is_live and UNIT.exists():
        take_away()
