"""The headers of the kernels that a driver's modules are built for, from the facts."""

import re

from msgspec import Struct

from gpustack.model import actions as do
from gpustack.model.actions import Argv, Package
from gpustack.model.architectures import debian_name
from gpustack.plan import done
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.managers import manager
from gpustack.plan.preparation import SUBJECT, filled, rows_for

_CAN_BUILD = 'test -e "/lib/modules/$(uname -r)/build" && command -v gcc && command -v make'
_SUSE_KERNEL = re.compile(r"(.+)-([a-z0-9_]+)")
_HAS_HEADERS = 'cd "/lib/modules/$(uname -r)" 2>/dev/null || exit 0; test -e build'
"""A tree without the modules of the kernel that runs, such as a chroot, needs no headers of it."""

_OF_RUNNING = {"kernel": "$k", "release": "${k%-*}", "variant": "${k##*-}"}
"""The parts of a kernel's release as a shell takes them from ``uname -r``."""

_OF_RUNNING_TOO = ": the headers of the kernel that runs are added if a repository has them"
_PLAIN = re.compile(r"[A-Za-z0-9.+_=-]*")


class Headers(Struct, frozen=True, kw_only=True):
    """The packages of the kernel headers of a system."""

    systems: tuple[str, ...]
    kernel: str = ""
    exact: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    why: str = ""
    src: tuple[str, ...] = ()


class HeadersCommand(Struct, frozen=True, kw_only=True):
    """A command of a package manager that plans do not support: the user runs it."""

    systems: tuple[str, ...]
    command: tuple[str, ...]
    note: str = ""
    src: tuple[str, ...] = ()


def kernel_headers(ctx: Context) -> Draft | None:
    """The step that installs the headers of every relevant kernel; None if the facts have none."""
    rows = rows_for(ctx, ctx.matrix.rows(SUBJECT, "headers", Headers))
    names: dict[str, None] = {}
    used: list[Headers] = []
    for kernel in ctx.kernels:
        row = _row_for_kernel(rows, kernel)
        if row is not None:
            used.append(row)
            names.update(dict.fromkeys(_expand(ctx, row.exact, kernel)))
            names.update(dict.fromkeys(row.follow))
    if not ctx.kernels:
        row = next((row for row in rows if not row.kernel), None)
        if row is not None:
            used.append(row)
            names.update(dict.fromkeys(_expand(ctx, row.unknown, "")))
    if not names:
        return None
    tool = manager(ctx.system.family)
    shown = " and ".join(ctx.kernels) or "the kernel, whose release is unknown here"
    follow = next((row.why for row in used if row.why), "")
    packages = tuple(_package(name) for name in names)
    install = do.InstallPackages(manager=tool.name, packages=packages)
    running = () if ctx.kernels or ctx.is_image else _headers_of_running(tool.commands(install)[0], packages, used)
    return draft(
        "headers",
        after=["index:system", "tools"],
        component="driver",
        kind="install-packages",
        title="install the kernel headers",
        why=f"the module is built for {shown}" + _OF_RUNNING_TOO * bool(running) + (f"; {follow}" if follow else ""),
        actions=(install, *running),
        undo_note="headers are harmless and stay",
        done_when=done.every(done.packages(tool, packages), done.succeeds("sh", "-c", _HAS_HEADERS) if running else ""),
        phase="prerequisites",
        sources=ctx.addresses(*used),
    )


def _headers_of_running(command: Argv, packages: tuple[Package, ...], used: list[Headers]) -> tuple[do.Run, ...]:
    """The action that installs the headers of the kernel that runs, by ``uname -r``; none if names carry no release.

    A kernel that no repository has headers of is not an error: the module is then built for the kernel of ``packages``.
    """
    names = [text for row in used for text in row.exact if "{kernel}" in text or "{release}" in text]
    if not names:
        return ()
    front = command[: len(command) - len(packages)]
    words = " ".join(map(_for_shell, names))
    script = f'k=$(uname -r); cd "/lib/modules/$k" && [ ! -e build ] && "$@" {words}; :'
    return (do.Run(argv=("sh", "-c", script, "sh", *front), packages=True),)


def _for_shell(template: str) -> str:
    """The name of a package as a word of a shell, with the kernel's release in ``k``: it holds no spaces."""
    parts = re.split(r"\{(\w+)\}", template)
    if not all(map(_PLAIN.fullmatch, parts)):
        msg = f"not the name of a package: {template!r}"
        raise ValueError(msg)
    return "".join(_OF_RUNNING[part] if number % 2 else part for number, part in enumerate(parts))


def headers_by_hand(ctx: Context) -> Draft:
    """The step without known packages of headers: the user installs them, and the plan checks them."""
    row = next(iter(rows_for(ctx, ctx.matrix.rows(SUBJECT, "headers_by_hand", HeadersCommand))), None)
    how = f", {row.note}" if row and row.note else ""
    return draft(
        "headers",
        after=["tools"],
        component="driver",
        kind="manual",
        title="install gcc, make and the headers of the kernel that runs",
        why=f"the driver's installer compiles the kernel modules and stops without them. {ctx.system.name} has its own "
        f"names for these packages{how}; the plan continues once /lib/modules/$(uname -r)/build is there",
        actions=(do.ByHand(commands=(row.command,) if row else ()),),
        undo_note="headers are harmless and stay",
        done_when=done.succeeds("sh", "-c", _CAN_BUILD),
        phase="prerequisites",
        sources=ctx.addresses(row),
    )


def headers_match(ctx: Context) -> list[Draft]:
    """The step that checks for the headers of the running kernel if its release was unknown to the plan."""
    if ctx.kernels:
        return []
    look = draft(
        "headers-match",
        after=["headers"],
        component="driver",
        kind="run",
        title="check that the headers are those of the kernel that runs",
        why="the release of the kernel was not known to this plan, and a package manager installs the newest headers. "
        "If this fails, reboot into the newest kernel and continue, or plan with --kernel",
        actions=(do.Look(argv=("sh", "-c", _CAN_BUILD)),),
        undo_note="nothing is changed",
        done_when=done.succeeds("sh", "-c", _CAN_BUILD),
        phase="prerequisites",
    )
    return [look]


def _row_for_kernel(rows: tuple[Headers, ...], kernel: str) -> Headers | None:
    matching = [row for row in rows if not row.kernel or re.fullmatch(row.kernel, kernel)]
    return max(matching, key=lambda row: len(row.kernel), default=None)


def _package(name: str) -> Package:
    package, _, pin = name.partition("=")
    return Package(name=package, pin=pin)


def _expand(ctx: Context, templates: tuple[str, ...], kernel: str) -> list[str]:
    split = _SUSE_KERNEL.fullmatch(kernel)
    values = {
        "kernel": kernel,
        "release": split[1] if split else kernel,
        "variant": split[2] if split else "default",
        "deb_arch": debian_name(ctx.arch, ctx.arch),
    }
    return [filled(template, values) for template in templates]
