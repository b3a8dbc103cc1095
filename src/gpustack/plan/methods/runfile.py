"""NVIDIA's .run files: for systems without a repository, and never alongside packages of the same component."""

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.facts import Archive
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components import component
from gpustack.plan.components.cuda import LINK, prefix_of
from gpustack.plan.context import Context
from gpustack.plan.downloads import archive_tools, fetch, path_of, reason_of
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.managers.base import CACHE
from gpustack.plan.methods.base import MethodPlanner
from gpustack.plan.preflight import UNINSTALL_DRIVER
from gpustack.plan.preparation import enable, install_tools, rows_for, starter
from gpustack.versions import is_within

_INSTALLER = "driver-installers"
_MODULE_THERE = 'command -v nvidia-uninstall && test "$(modinfo --field version nvidia)" = "$1"'
_UNIT_ARCHIVE = "/usr/share/doc/NVIDIA_GLX-1.0/samples/nvidia-persistenced-init.tar.bz2"


class FlavourFlag(Struct, frozen=True, kw_only=True):
    """The option of the .run files of these versions for the kernel modules to build."""

    versions: str
    flag: str
    src: tuple[str, ...] = ()


class BuildNeeds(Struct, frozen=True, kw_only=True):
    """The packages that a .run file requires; ``dkms`` says whether they include it.

    ``systems`` are those of the family whose own repositories, or those that the plan adds, have these packages; a row
    without them is for all others.
    """

    family: str
    systems: tuple[str, ...] = ()
    component: str
    packages: tuple[str, ...]
    dkms: bool
    src: tuple[str, ...] = ()


class Runfile(MethodPlanner):
    """The toolkit, or the driver with its modules registered in dkms if the system has it."""

    def drafts(self, ctx: Context, pick: Pick) -> list[Draft]:
        row = pick.offer.archives[0]
        part = component(pick.component)
        before = [*archive_tools(ctx), *_needs(ctx, pick), *part.before(ctx, pick)]
        if pick.component == "driver":
            before += _quiet_gpu(ctx)
        download = fetch(ctx, pick, row, part.phase)
        after = tuple(one.key for one in (*before, download))
        install = (_driver if pick.component == "driver" else _toolkit)(ctx, pick, row, after=after)
        installed = [install]
        if pick.component == "driver":
            installed += _persistence_unit(ctx, install.key)
        return [*before, download, *installed, *part.after(ctx, pick, tuple(one.key for one in installed))]


def _driver(ctx: Context, pick: Pick, row: Archive, *, after: tuple[str, ...]) -> Draft:
    dkms = _has_dkms(ctx)
    why = [reason_of(pick), "--silent accepts the licence"]
    if dkms:
        why.append("--dkms rebuilds the modules for later kernels")
    else:
        why.append("without dkms, run it again after each kernel update")
    words = ("--dkms",) if dkms else ()
    return draft(
        "install:driver",
        after=after,
        component="driver",
        kind="run",
        title=f"run {row.file}",
        why="; ".join(why),
        actions=(do.RunInstaller(path=path_of(pick, row), arguments=("--silent", *words, *_flavour(ctx, pick))),),
        undo=(do.Run(argv=UNINSTALL_DRIVER, settings=True),),
        done_when=done.succeeds("sh", "-c", _MODULE_THERE, "sh", pick.version),
        phase=component("driver").phase,
        sources=ctx.addresses(row),
    )


def _toolkit(ctx: Context, pick: Pick, row: Archive, *, after: tuple[str, ...]) -> Draft:
    prefix = prefix_of(pick.version)
    marker = done.marker(prefix, row.file)
    return draft(
        f"install:{pick.component}",
        after=after,
        component=pick.component,
        kind="run",
        title=f"run {row.file}",
        why=f"{reason_of(pick)}; --silent accepts the licence, --toolkit leaves the driver in the file alone. Its log "
        "is /var/log/cuda-installer.log",
        actions=(
            # It also changes /usr/local/cuda.
            do.RunInstaller(path=path_of(pick, row), arguments=("--silent", "--toolkit"), touches=(prefix, LINK)),
            do.Mark(path=marker),
        ),
        undo_note=f"{prefix}/bin/cuda-uninstaller removes it interactively",
        done_when=done.paths(f"{prefix}/bin/nvcc", marker),
        phase=component(pick.component).phase,
        sources=ctx.addresses(row),
    )


def _flavour(ctx: Context, pick: Pick) -> tuple[str, ...]:
    """The option that selects the kernel modules; () for releases with only one kind of them."""
    if not pick.flavour:
        return ()
    folder = "kernel-open" if pick.flavour == "open" else "kernel"
    rows = ctx.matrix.rows(_INSTALLER, "flavour_flags", FlavourFlag)
    return tuple(
        row.flag.replace("{flavour}", pick.flavour).replace("{folder}", folder)
        for row in rows
        if is_within(pick.version, row.versions)
    )


def _row_of_needs(ctx: Context, name: str) -> BuildNeeds | None:
    rows = ctx.matrix.rows(_INSTALLER, "build_needs", BuildNeeds)
    found = [row for row in rows if (row.family, row.component) == (ctx.system.family, name)]
    exact = rows_for(ctx, [row for row in found if row.systems])
    return next(iter(exact or [row for row in found if not row.systems]), None)


def _has_dkms(ctx: Context) -> bool:
    row = _row_of_needs(ctx, "driver")
    return row is not None and row.dkms


def _needs(ctx: Context, pick: Pick) -> list[Draft]:
    """The compiler, and dkms from the system's own repositories, or EPEL.

    If a plan installs no packages, a step by hand installs them together with the kernel headers.
    """
    row = _row_of_needs(ctx, pick.component)
    if row is None or ctx.system.family not in NAMES:
        if pick.component != "driver":
            ctx.warn(f"what a .run file requires is not known for {ctx.system.name}: gcc, make")
        return []
    tool = manager(ctx.system.family)
    first = enable(ctx, ["driver"]) if row.dkms and tool.name == "dnf" else []
    build = install_tools(
        ctx,
        f"runfile-tools:{pick.component}",
        row.packages,
        after=["archive-tools", *(one.key for one in first)],
        component=pick.component,
        why="the installer compiles the kernel modules"
        if pick.component == "driver"
        else "the installer requires the compiler that nvcc calls",
        sources=ctx.addresses(row),
    )
    return [*first, build]


def _quiet_gpu(ctx: Context) -> list[Draft]:
    """Nothing may use the GPU during the installation: no X server, no nouveau (which releases it at reboot)."""
    if ctx.is_image:
        return []
    after = ["blacklist", "initramfs"]
    held = sorted({gpu.bound for gpu in ctx.host.gpus if gpu.bound in {"nouveau", "nova", "nova_core"}})
    drafts = []
    if held:
        drafts.append(
            draft(
                "reboot-before",
                after=after,
                component="driver",
                kind="reboot",
                title=f"reboot, so that {' and '.join(held)} releases the GPU",
                why="the installer stops if another module holds it",
                actions=(do.Reboot(),),
                undo_note="a reboot has nothing to undo",
                phase="driver",
                sources=ctx.addresses(ctx.matrix.conflicts.get("nouveau_loaded")),
            )
        )
    unknown = ctx.host.described and not held
    also = ". Where lsmod shows nouveau, reboot first: the module releases the GPU only at a reboot" if unknown else ""
    drafts.append(
        draft(
            "no-x-server",
            after=[*after, "reboot-before"],
            component="driver",
            kind="note",
            title="no X server may run while the driver's installer does",
            why="it stops where one runs. On a desktop: log in on a console or by ssh, systemctl isolate "
            f"multi-user.target, and back to graphical.target afterwards{also}",
            needs_root=False,
            undo_note="nothing is changed",
            phase="driver",
            sources=ctx.matrix.addresses((f"{_INSTALLER}/guide",)),
        )
    )
    if ctx.host.secure_boot is True and not _has_dkms(ctx):
        ctx.warn(
            "Secure Boot is on and there is no dkms whose key could sign the modules: give the installer "
            "--module-signing-secret-key and --module-signing-public-key of a key that the firmware knows"
        )
    return drafts


def _persistence_unit(ctx: Context, after: str) -> list[Draft]:
    """Packages contain the daemon's unit; a .run file leaves it in an archive. Only for systems with systemd."""
    other = starter(ctx)
    if other is not None:
        ctx.warn(
            f"{ctx.system.name} starts its services by {other.starts}, not by systemd: no step enables the persistence "
            "daemon. /usr/bin/nvidia-persistenced has to be started at each boot there, or GPUs lose their state "
            "while no program uses them"
        )
        return []
    folder = f"{CACHE}/nvidia-persistenced-init"
    unit = draft(
        "persistence-unit",
        after=[after],
        component="driver",
        kind="run",
        title="install the unit of the persistence daemon",
        why="the .run file contains the daemon, and its unit only as a sample",
        actions=(
            do.MakeFolders(paths=(folder,)),
            do.Unpack(archive=_UNIT_ARCHIVE, folder=folder, own=False),
            do.RunInstaller(path=f"{folder}/install.sh", touches=(folder,)),
        ),
        undo=(do.RunInstaller(path=f"{folder}/install.sh", arguments=("-r",)),),
        done_when=done.succeeds("systemctl", "cat", "nvidia-persistenced.service"),
        phase="driver",
        sources=ctx.matrix.addresses((f"{_INSTALLER}/gcp",)),
    )
    return [unit]


PLANNER = Runfile()
