"""Before the first step: what must not be planned, what is in the way, and what the reader must know."""

from __future__ import annotations

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.actions import AnyAction
from gpustack.model.host import Installed
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.problems import problem_steps, refuse
from gpustack.versions import version

UNINSTALL_DRIVER = ("nvidia-uninstall", "--silent")
"""The uninstaller of a driver from a .run file."""


def check(ctx: Context, picks: list[Pick]) -> None:
    """Refuse what must never be planned. Raises UnsupportedError with an alternative."""
    names = {pick.component for pick in picks}
    environment = ctx.host.environment
    if environment == "wsl" and names & {"driver", "fabric-manager"}:
        msg = "under WSL the driver is that of Windows: a Linux driver would overwrite the libraries of Windows"
        raise UnsupportedError(
            msg,
            code="driver-of-another",
            hint="install or update the driver in Windows; plan cuda and the libraries here",
        )
    if environment == "container" and names & {"driver", "fabric-manager"}:
        msg = "a container uses the host's driver and must not install another"
        raise UnsupportedError(
            msg,
            code="driver-of-another",
            hint="plan the driver on the host, and container-toolkit to give containers access to it",
        )
    if environment == "jetson" and names & {"driver", "fabric-manager"}:
        msg = "on Jetson the driver comes with Jetson Linux (JetPack): server driver packages do not run there"
        raise UnsupportedError(msg, code="driver-of-another", hint="update JetPack for another driver")
    if ctx.system.is_read_only and any(pick.method != "container" for pick in picks):
        msg = f"{ctx.system.name} keeps its system read-only: nothing can be installed into it from here"
        raise UnsupportedError(
            msg, code="read-only-system", hint=ctx.system.no_repo or "an image with the driver built in, or a container"
        )
    if ctx.system.support == "own channel" and names & {"driver", "fabric-manager"}:
        msg = f"on {ctx.system.name} the driver belongs to its publisher's own channel: no other can be added"
        raise UnsupportedError(msg, code="driver-of-another", hint=ctx.system.no_repo)
    refuse(ctx, picks)


def notes(ctx: Context, picks: list[Pick]) -> list[Draft]:
    """What the reader must know before the first step, as steps that change nothing."""
    if not picks:
        return []
    _warn_of_age(ctx)
    drafts = problem_steps(ctx, picks)
    if ctx.host.reboot_pending and any(pick.component == "driver" for pick in picks):
        drafts.insert(0, _pending_reboot(ctx))
    elif ctx.host.kernel and ctx.host.next_kernel and ctx.host.kernel != ctx.host.next_kernel and ctx.driver_changes:
        drafts.insert(0, _other_kernel(ctx))
    return drafts


def replace_other_methods(ctx: Context, pick: Pick) -> list[Draft]:
    """The steps that remove another method's installation where both cannot coexist.

    Raises UnsupportedError if it cannot be removed safely.
    """
    there = ctx.host.installed.get(pick.component)
    both = any(problem.id == "mix_driver_runfile_packages" for problem in ctx.host.problems)
    drafts = [_remove_runfile_driver(ctx)] if pick.component == "driver" and both else []
    if there is None or there.method in {None, "unknown", pick.method}:
        return drafts
    if pick.component == "driver":
        return [*drafts, _replace_driver(ctx)]
    if pick.component == "cuda" and there.version and _same_release(there.version, pick.version):
        same_names = any(problem.id == "ubuntu2604_same_named_cuda" for problem in ctx.host.problems)
        return [_replace_toolkit(ctx, pick)] if "runfile" in {there.method, pick.method} or same_names else []
    ctx.warn(
        f"{pick.component} {there.version or ''} is there by the method {there.method}"
        + (f" in {there.path}" if there.path else "")
        + f": it stays alongside the one of method {pick.method}; a program's search path decides which one it loads"
    )
    return []


def _replace_driver(ctx: Context) -> Draft:
    there = ctx.host.installed["driver"]
    if there.method == "runfile":
        return _remove_runfile_driver(ctx)
    if not there.packages:
        msg = f"a driver is installed by method {there.method}, and its packages are not known"
        raise UnsupportedError(
            msg, code="unknown-driver-packages", hint=f"remove it first, or keep it: --method driver={there.method}"
        )
    return draft(
        "remove:driver",
        component="driver",
        kind="remove-packages",
        title=f"remove the driver packages of {there.origin or there.method}",
        why="driver packages of two origins share names and files: remove one set first",
        actions=(do.RemovePackages(manager=manager(ctx.system.family).name, names=there.packages),),
        done_when=done.absent(there.packages),
        undo_note=f"driver {there.version or ''} must be reinstalled the way it was installed ({there.method})",
        phase="prerequisites",
        sources=ctx.addresses(ctx.matrix.conflicts.get("mix_driver_runfile_packages")),
    )


def _remove_runfile_driver(ctx: Context) -> Draft:
    return draft(
        "remove:driver-runfile",
        component="driver",
        kind="remove-packages",
        title="remove the driver installed by runfile",
        why="its files and those of the packages would overwrite each other",
        actions=(do.Run(argv=UNINSTALL_DRIVER, settings=True),),
        undo_note="reinstall it with its runfile",
        done_when=done.succeeds("test", "!", "-e", "/usr/bin/nvidia-uninstall"),
        phase="prerequisites",
        sources=ctx.addresses(ctx.matrix.conflicts.get("mix_driver_runfile_packages")),
    )


def _replace_toolkit(ctx: Context, pick: Pick) -> Draft:
    there = ctx.host.installed["cuda"]
    major, minor = (*version(pick.version).numbers, 0)[:2]
    runfile = there.method == "runfile"
    tool = f"/usr/local/cuda-{major}.{minor}/bin/cuda-uninstaller"
    return draft(
        "remove:cuda",
        component="cuda",
        kind="manual" if runfile or not there.packages else "remove-packages",
        title=f"remove the toolkit {there.version} installed by {there.method}",
        why="two methods cannot share a release folder; other releases may stay",
        actions=_toolkit_removal(ctx, tool, there),
        undo_note=f"it must be reinstalled the way it was installed ({there.method})",
        done_when=done.succeeds("test", "!", "-e", tool) if runfile else done.absent(there.packages),
        phase="prerequisites",
        sources=ctx.addresses(ctx.matrix.conflicts.get("mix_toolkit_runfile_packages")),
    )


def _toolkit_removal(ctx: Context, uninstaller: str, there: Installed) -> tuple[AnyAction, ...]:
    if there.method == "runfile":
        return (do.ByHand(commands=((uninstaller,),)),)
    if not there.packages:
        return ()
    return (do.RemovePackages(manager=manager(ctx.system.family).name, names=there.packages),)


def _same_release(one: str, other: str) -> bool:
    try:
        return version(one).numbers[:2] == version(other).numbers[:2]
    except ValueError:
        return False


def _warn_of_age(ctx: Context) -> None:
    """Warn about a system past its end of life, measured against the day of the facts, never against a clock."""
    end = ctx.host.os.eol or ctx.system.eol
    read = max((source.read for source in ctx.matrix.sources("systems").values()), default="")
    if not end or not read or end > read:
        return
    name = ctx.host.os.name or ctx.system.name or ctx.host.os.spelled
    lts = ctx.system.lts
    if lts > read:
        ctx.warn(f"{name} reached the end of its ordinary support on {end}; long-term support lasts to {lts}")
    else:
        ctx.warn(f"{name} reached its end of life on {end}: it receives no more fixes")


def _pending_reboot(ctx: Context) -> Draft:
    return draft(
        "pending-reboot",
        component="",
        kind="manual",
        title="reboot first: the host has a pending reboot",
        why="a module built before it may be for a kernel that is no longer used afterwards",
        undo_note="a reboot has nothing to undo",
        phase="preflight",
        sources=ctx.addresses(ctx.matrix.conflicts.get("running_kernel_old")),
    )


def _other_kernel(ctx: Context) -> Draft:
    return draft(
        "other-kernel",
        component="",
        kind="note",
        title=f"kernel {ctx.host.next_kernel} boots next, {ctx.host.kernel} runs now",
        why="headers are installed for both, so that the module exists for whichever boots",
        needs_root=False,
        undo_note="nothing is changed",
        phase="preflight",
        sources=ctx.addresses(ctx.matrix.conflicts.get("running_kernel_old")),
    )
