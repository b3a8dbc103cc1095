"""The driver: headers first, then a version lock, conflicting modules, keys, persistence, and a reboot."""

from __future__ import annotations

from gpustack.model import actions as do
from gpustack.model.resolution import Pick
from gpustack.model.steps import FileWrite
from gpustack.plan import done
from gpustack.plan.components.base import Component
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.headers import headers_by_hand, headers_match, kernel_headers
from gpustack.plan.preparation import (
    SUBJECT,
    ConflictModule,
    Initramfs,
    SecureBoot,
    enable,
    install_tools,
    rows_for,
    starter,
)
from gpustack.plan.signed_modules import signed_modules

BLACKLIST = "/etc/modprobe.d/gpustack-blacklist.conf"
PERSISTENCE = "nvidia-persistenced.service"


class Driver(Component):
    """The kernel module and the libraries of one version, one flavour, one origin."""

    phase = "driver"

    def before(self, ctx: Context, pick: Pick) -> list[Draft]:
        drafts = enable(ctx, ["driver"]) if pick.method in {"network", "local"} else []
        is_built = ctx.host.environment != "container" and not signed_modules(ctx, pick)
        headers = kernel_headers(ctx) if is_built else None
        if pick.method != "runfile" or ctx.is_image:
            drafts += [headers] if headers else []
        elif headers is None:
            drafts.append(headers_by_hand(ctx))
        else:
            drafts += [headers, *headers_match(ctx)]
        return drafts + _conflicting_modules(ctx, pick)

    def roles(self, ctx: Context, pick: Pick) -> tuple[str, ...]:  # noqa: ARG002 (the same for every pick)
        # zypper cannot lock in advance: without their names the parts would come in their newest version.
        parts = ("compute", "desktop") if ctx.system.family == "zypper" else ()
        return ("main", *parts, "video") if ctx.has_video else ("main", *parts)

    def after(self, ctx: Context, pick: Pick, installed: tuple[str, ...]) -> list[Draft]:
        drafts = [_persistence(ctx, installed)] if starter(ctx) is None else []
        drafts += [] if signed_modules(ctx, pick) else enrol_key(ctx, installed)
        if not ctx.is_image:
            drafts.append(_reboot(ctx, pick, tuple(one.key for one in drafts) + installed))
        return drafts


def _conflicting_modules(ctx: Context, pick: Pick) -> list[Draft]:
    """Keep other modules off the GPU if no NVIDIA driver is installed, if one is bound, or for a runfile."""
    bound = {gpu.bound for gpu in ctx.host.gpus if gpu.bound}
    rows = ctx.matrix.rows(SUBJECT, "conflict_modules", ConflictModule)
    holding = sorted(row.module for row in rows if row.module in bound)
    if not holding and pick.method != "runfile" and "driver" in ctx.host.installed:
        return []
    lines = [line for row in rows for line in row.lines]
    if holding:
        reason = f"{' and '.join(holding)} holds a GPU now"
    elif pick.method == "runfile":
        reason = "the runfile's driver cannot use a GPU that another module holds"
    else:
        reason = (
            "the nvidia module cannot use a GPU that another module holds at boot; packages block nouveau, not nova"
        )
    write = draft(
        "blacklist",
        component="driver",
        kind="write-file",
        title="keep nouveau and nova away from the GPUs",
        why=reason,
        files=(FileWrite(path=BLACKLIST, content="# Written by gpustack\n" + "\n".join(lines) + "\n"),),
        undo=(do.Remove(paths=(BLACKLIST,)),),
        phase="driver",
        sources=ctx.addresses(*rows),
    )
    tools = {row.tool: row for row in ctx.matrix.rows(SUBJECT, "initramfs", Initramfs)}
    tool = tools.get(ctx.system.initramfs)
    if tool is None:
        ctx.warn("how this system rebuilds its initramfs is not known: rebuild it once the blacklist is written")
        return [write]
    rebuild = draft(
        "initramfs",
        after=["blacklist"],
        component="driver",
        kind="rebuild-initramfs",
        title="rebuild the initramfs",
        why="otherwise the old initramfs loads the other module at the next boot",
        actions=(do.RebuildInitramfs(argv=tool.command),),
        undo=(do.RebuildInitramfs(argv=tool.command),),
        phase="driver",
        sources=ctx.addresses(tool),
    )
    return [write, rebuild]


def _persistence(ctx: Context, installed: tuple[str, ...]) -> Draft:
    image = ctx.is_image
    return draft(
        "persistence",
        after=installed,
        component="driver",
        kind="enable-service",
        title="enable the persistence daemon",
        why="without it a GPU that no program uses loses its state and takes seconds to start; it starts at boot"
        + (", not now: an image has no GPU" if image else ""),
        actions=(do.EnableService(unit=PERSISTENCE),),
        undo=(do.DisableService(unit=PERSISTENCE),),
        done_when=done.unit(PERSISTENCE),
        phase="driver",
        sources=ctx.addresses(ctx.matrix.conflicts.get("persistenced_in_image_build")),
    )


def enrol_key(ctx: Context, installed: tuple[str, ...]) -> list[Draft]:
    """The steps that enrol the key of locally built modules in the firmware; none without Secure Boot."""
    if ctx.host.secure_boot is False or ctx.is_image:
        return []
    row = next(iter(rows_for(ctx, ctx.matrix.rows(SUBJECT, "secure_boot", SecureBoot))), None)
    if ctx.host.secure_boot is None:
        return [_secure_boot_note(ctx, row, installed)] if row is not None and ctx.host.described else []
    if row is None or not row.key:
        advice = row.action if row and row.action else "sign the modules with a key that the firmware knows"
        ctx.warn(f"Secure Boot is on, and no key that the firmware knows signs the modules of this plan: {advice}")
        return []
    ctx.warn(
        "Secure Boot is on, and modules are built on this host: unless its key is enrolled already, somebody has to "
        "confirm 'Enroll MOK' on the console at the reboot (of a virtual machine: its serial or graphical console). "
        "Without a console nothing of this plan should be begun; after the boot `gpustack install --resume` continues"
    )
    tools = install_tools(
        ctx,
        "secure-boot-tools",
        row.tools,
        after=["index:system", "tools", "archive-tools"],
        component="driver",
        why="it enrols the key that signs the driver's modules",
        undo_note="a common tool, so it stays",
        sources=ctx.addresses(row),
    )
    enrol = draft(
        "secure-boot",
        after=(*installed, tools.key),
        component="driver",
        kind="manual",
        title="enrol the key that signs the driver's modules",
        why=f"Secure Boot is on: the kernel refuses modules built here until the firmware knows {row.key}. The command "
        "asks for a password; the next boot stops at a blue screen, where 'Enroll MOK' and that password must be "
        "entered on the console",
        actions=(do.ByHand(commands=(("mokutil", "--import", row.key),)),),
        undo=(do.ByHand(commands=(("mokutil", "--delete", row.key),)),),
        # It answers in words: its exit status means the opposite of what one would expect.
        done_when=done.succeeds("sh", "-c", 'mokutil --test-key "$1" | grep -q "is already enrolled"', "sh", row.key),
        phase="driver",
        sources=ctx.addresses(row, ctx.matrix.conflicts.get("secure_boot_unsigned")),
    )
    return [tools, enrol]


def _secure_boot_note(ctx: Context, row: SecureBoot, installed: tuple[str, ...]) -> Draft:
    how = f"mokutil --import {row.key}, then 'Enroll MOK' on the console at the next boot" if row.key else row.action
    return draft(
        "secure-boot",
        after=installed,
        component="driver",
        kind="note",
        title="where Secure Boot is on, the modules need a key that the firmware knows",
        why=f"{how}. A described host does not say whether it is on (mokutil --sb-state shows it)",
        needs_root=False,
        undo_note="nothing is changed",
        phase="driver",
        sources=ctx.addresses(row, ctx.matrix.conflicts.get("secure_boot_unsigned")),
    )


def _reboot(ctx: Context, pick: Pick, after: tuple[str, ...]) -> Draft:
    loaded = ctx.host.module.version if ctx.host.module and ctx.host.module.loaded else None
    if loaded:
        why = f"the module {loaded} in memory is incompatible with the libraries of {pick.version}"
    elif any(gpu.bound == "nouveau" for gpu in ctx.host.gpus):
        why = "nouveau releases the GPU only at a reboot"
    else:
        why = f"the module {pick.version} is loaded at the next boot, by the kernel it was built for"
    return draft(
        "reboot",
        after=after,
        component="driver",
        kind="reboot",
        title="reboot",
        why=why,
        actions=(do.Reboot(systemd=starter(ctx) is None),),
        undo_note="a reboot has nothing to undo",
        phase="reboot",
        sources=ctx.addresses(ctx.matrix.conflicts.get("driver_library_mismatch")),
    )


COMPONENT = Driver()
