"""Carries out each kind of step with the commands of the plan, as they were reviewed."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path, PurePosixPath
from typing import Literal

from gpustack.errors import GpustackError
from gpustack.install.changes.backups import remove
from gpustack.install.journal.records import Outcome
from gpustack.install.run.executor import Action, PausedError, StepFailedError, Workplace
from gpustack.install.run.reboot import reboot_step
from gpustack.install.run.touched_paths import newcomer, places_of
from gpustack.install.supply.archives import demand_room, inspect, unpackings_of
from gpustack.install.supply.cache import has_sum, take
from gpustack.install.supply.signatures import demand_key, demand_safe_repository
from gpustack.model.actions import (
    AnyAction,
    Argv,
    DisableService,
    EnableService,
    InstallFile,
    RebuildInitramfs,
    RestartService,
    Verify,
    Words,
)
from gpustack.model.steps import Artifact, FileWrite, Kind, Step
from gpustack.plan.commands import spell
from gpustack.plan.former import actions_of, missing_system, rpm_file_in, words_of
from gpustack.plan.managers.database import rpm_in_file, rpm_is_there
from gpustack.render.commands import command_line
from gpustack.system.files import write_atomically
from gpustack.system.jobs import ENVIRONMENT
from gpustack.system.run import Finished
from gpustack.visible import one_line

_WITHOUT_A_SYSTEM = {
    "services": "no service manager is in this tree",
    "boot": "no boot image is made in this tree",
}
"""What a tree may lack until something boots it, and why that is not a failure."""


def act(work: Workplace, step: Step) -> Outcome:
    """Carry out the step. Raises GpustackError if that fails."""
    return _OTHERS.get(step.kind, _plain)(work, step)


def _nothing(work: Workplace, step: Step) -> Outcome:
    del work, step
    return "skipped"


def _by_hand(work: Workplace, step: Step) -> Outcome:
    work.report.say(f"by hand: {step.title}: {step.why}")
    for argv in step.commands:
        work.report.say(f"    {one_line(command_line(argv))}")
    if work.report.ask("Is it done?"):
        return "done"
    msg = f"a step must be done by hand: {step.title}"
    raise PausedError(msg, code="by-hand", hint="do it, then `gpustack install --resume`")


def _plain(work: Workplace, step: Step) -> Outcome:
    """Download files, write files, run commands: in this order, as in every format of a plan."""
    for artifact in step.artifacts:
        bring(work, artifact)
    for file in step.files:
        write(work, file)
    for action in actions_of(step):
        _take(work, step, action)
    return "done"


def _repository(work: Workplace, step: Step) -> Outcome:
    for file in step.files:
        demand_safe_repository(file)
    return _plain(work, step)


def _extract(work: Workplace, step: Step) -> Outcome:
    for one in unpackings_of(step):
        archive = work.target.followed(one.archive)
        demand_room(archive, inspect(archive, one.strip), work.target.followed(one.folder))
    return _plain(work, step)


_OTHERS: dict[Kind, Action] = {
    "note": _nothing,
    "manual": _by_hand,
    "add-repository": _repository,
    "extract": _extract,
    "reboot": reboot_step,
}
"""The kinds of steps that are more than files and commands, or less."""


def bring(work: Workplace, artifact: Artifact) -> None:
    """Put a downloaded file at its place in the plan."""
    place = work.target.place(artifact.path)
    if not (artifact.sha256 and has_sum(place, artifact.sha256)):
        source = work.files.get(artifact)
        place.parent.mkdir(parents=True, exist_ok=True)
        new = work.target.place(newcomer(artifact.path))
        remove(new)
        # A file without a published checksum is in the cache under the one computed at its download.
        take(source, new, artifact.sha256 or source.name)
        new.chmod(0o644)
        new.replace(place)
    if artifact.fingerprint:
        demand_key(work, artifact)


def write(work: Workplace, file: FileWrite) -> None:
    """Write one file of the plan, complete or not at all."""
    place = work.target.place(file.path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        msg = "is a folder where the plan has a file"
        raise StepFailedError(msg, where=file.path)
    new = work.target.place(newcomer(file.path))
    remove(new)
    write_atomically(place, content_of(file), mode=int(file.mode, 8), new=new)


def content_of(file: FileWrite) -> str:
    """The content of the file: as in every format of a plan, its last line ends with a line break."""
    return file.content if file.content.endswith("\n") else f"{file.content}\n"


def _take(work: Workplace, step: Step, action: AnyAction) -> None:
    """Carry out one action of the plan. Raises StepFailedError with the end of its output."""
    commands = spell(action)
    if isinstance(action, Verify):
        if not work.target.is_live:
            words = " ".join(map(command_line, commands))
            work.report.say(f"skipped: `{words}` needs a running system")
            return
        home = Path(__file__).parents[3]
        itself = ("env", f"PYTHONPATH={home}", sys.executable, "-m", "gpustack")
        commands = tuple((*itself, *argv[1:]) for argv in commands)
    elif is_left_out(work, action) or _is_installed_file(work, action):
        return
    for argv in commands:
        _run(work, step, argv)


def _run(work: Workplace, step: Step, argv: Argv) -> None:
    done = work.command(step, argv)
    if done.code != 0:
        msg = f"`{one_line(command_line(argv))[:300]}`: {_how(done)}"
        full = _full(work, step)
        if full:
            # The full disk is often the one on which the command's output would have been kept.
            msg += f"\n{os.strerror(errno.ENOSPC)}: {full}"
        hint = f"make room on the file system of {full}" if full else ""
        raise StepFailedError(msg, where=step.title, tail=done.out, hint=hint)


_NOTHING_LEFT = 2**20
"""Bytes below which a file system counts as full."""


def _full(work: Workplace, step: Step) -> str:
    """A place of the step on a full file system, or ""."""
    for path in (*places_of(step), "/usr", "/var", "/tmp"):  # noqa: S108 (only read)
        place = work.target.followed(path)
        while not place.exists():
            place = place.parent
        found = os.statvfs(place)
        if found.f_blocks and found.f_bavail * found.f_frsize < _NOTHING_LEFT and not found.f_flag & os.ST_RDONLY:
            return path
    return ""


def _how(done: Finished) -> str:
    if done.code is None:
        return done.error
    return f"it ended with {done.code}" if done.code > 0 else f"it was killed by signal {-done.code}"


def is_left_out(work: Workplace, action: AnyAction) -> bool:
    """Whether an action needs a program that this tree lacks because nothing boots it yet; reports it."""
    needs = "" if work.target.is_live else _needs(action)
    if not needs or all(is_there(work, words_of(argv)[0]) for argv in spell(action)):
        return False
    work.report.say(f"skipped: {_WITHOUT_A_SYSTEM[needs]}")
    return True


def _needs(action: AnyAction) -> Literal["", "services", "boot"]:
    match action:
        case EnableService() | DisableService() | RestartService():
            return "services"
        case RebuildInitramfs():
            return "boot"
        case Words(argv=argv):
            return missing_system(argv)
        case _:
            return ""


def is_there(work: Workplace, name: str) -> bool:
    """Whether the tree has a program."""
    if "/" in name:
        return os.path.lexists(work.target.followed(name))
    return any(work.target.followed(f"{folder}/{name}").exists() for folder in ENVIRONMENT["PATH"].split(":"))


def _is_installed_file(work: Workplace, action: AnyAction) -> bool:
    """Whether an action would only install an installed package file, which rpm treats as an error."""
    match action:
        case InstallFile(path=path) if work.tool == "rpm":
            pass
        case Words(argv=argv):
            path = rpm_file_in(argv)
        case _:
            return False
    if not path:
        return False
    try:
        name = work.query(rpm_in_file(path))
        work.query(rpm_is_there(name))
    except GpustackError:
        return False
    return PurePosixPath(name).name == name
