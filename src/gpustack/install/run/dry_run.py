"""What a run would do, as text: the plan, and what people want to know before they confirm."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gpustack.errors import GpustackError
from gpustack.install.journal.file import DamagedJournalError
from gpustack.install.options import Options
from gpustack.install.root import InstallRoot
from gpustack.install.run.state import state_folder, to_abandon, to_roll_back
from gpustack.install.run.touched_paths import changes_packages
from gpustack.model.actions import RunInstaller
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.plan.commands import spell
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.undoing import way_back
from gpustack.render.commands import command_line
from gpustack.render.table import render
from gpustack.visible import one_line


def show(plan: Plan, options: Options) -> str:
    """Every command, file, download with its size, reboot and undo."""
    lines = [render(plan).rstrip()]
    if not plan.steps:
        return lines[0] + "\n"
    lines += ["", "Downloads", *_downloads(plan)]
    lines += ["", "To undo it (`gpustack install --rollback`)", *_undo(plan)]
    reboots = [step for step in plan.steps if step.reboot_after]
    if reboots and options.root is None:
        how = {"now": "it reboots and continues by itself", "ask": "it asks", "never": "it stops, exit code 5"}
        lines += ["", "Reboot", f"  after {_number(plan, reboots[0])}: {how[options.reboot]} (--reboot)"]
    if options.root is not None:
        lines += ["", f"Into {options.root}: commands run in it by chroot; no service is started, nothing is rebooted"]
    return "\n".join(lines) + "\n"


def _downloads(plan: Plan) -> list[str]:
    files = [artifact for step in plan.steps for artifact in step.artifacts]
    if not files:
        return ["  none of its own; the package manager fetches packages"]
    known = [one.size for one in files if one.size is not None]
    unknown = len(files) - len(known)
    sizes = [_size(sum(known))] if known else []
    sizes += [f"{unknown} of unknown size" if known else "of unknown size"] if unknown else []
    total = f"  {len(files)} file{'s' if len(files) > 1 else ''}, {' and '.join(sizes)}"
    room = (
        f"  disk space: {_size(sum(known))} in the cache and as much where the files are used, unless both share blocks"
    )
    return [total, room] if known else [total]


def _undo(plan: Plan) -> list[str]:
    lines = [
        "  files: previous contents are backed up and restored; packages: the previous set and versions are restored",
    ]
    for step in plan.steps:
        lines += [
            f"  {_number(plan, step)} $ {one_line(command_line(argv))}"
            for action in undo_actions_of(step)
            if way_back(action) in {"command", "at the end"}
            for argv in spell(action)
        ]
    lines += [f"  cannot be rolled back: {text}" for text in _not_taken_back(plan)]
    return lines


def _number(plan: Plan, step: Step) -> str:
    return f"step {plan.steps.index(step) + 1}"


def _size(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size < 2**30 else f"{size / 2**30:.2f} GiB"


def show_rollback(options: Options) -> str:
    """What ``--rollback`` would undo."""
    run = to_roll_back(_state_folder(options))
    plan = run.plan()
    begun = set(run.history().begun())
    lines = [f"The run {run.name} did these steps; they are undone in reverse order:"]
    lines += [f"  {_number(plan, step)} {one_line(step.title)}" for step in plan.steps if step.id in begun]
    lines += [f"  cannot be rolled back: {text}" for text in _not_taken_back(plan)]
    return "\n".join(lines)


def show_abandon(options: Options) -> str:
    """What stays on the system after ``--abandon``, as far as the journal knows."""
    run = to_abandon(_state_folder(options))
    lines = [f"The run {run.name} can be neither resumed nor rolled back after this. What it did stays:"]
    try:
        history = run.history()
    except DamagedJournalError as error:
        lines += [f"  {error.message}", "  until then it did:"]
        history = error.history
    titles: dict[str, str] = {}
    with suppress(GpustackError):
        titles = {step.id: one_line(step.title) for step in run.plan().steps}
    lines += [f"  {titles.get(name, name)}: {history.steps[name].state}" for name in history.begun()] or ["  nothing"]
    return "\n".join([*lines, f"Its folder is kept: {run.folder}"])


def _state_folder(options: Options) -> Path:
    return state_folder(InstallRoot(options.root.resolve()) if options.root else InstallRoot())


def _not_taken_back(plan: Plan) -> list[str]:
    """What no rollback reverts, one sentence each."""
    texts = []
    for step in plan.steps:
        if step.kind == "manual":
            texts.append(f"{step.title}: what is done by hand or enrolled in the firmware must be undone by hand")
        elif step.kind == "remove-packages" and not changes_packages(step):
            texts.append(f"{step.title}: {step.undo_note}")
        elif step.kind == "remove-packages":
            texts.append(f"{step.title}: restored only if a repository still has these versions")
        elif any(isinstance(action, RunInstaller) for action in actions_of(step)) and not step.undo:
            texts.append(f"{step.title}: {step.undo_note}")
    return texts
