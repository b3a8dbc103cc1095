"""Kernel modules built and signed by the distribution: with Secure Boot they need no key of the user's."""

import re

from msgspec import Struct

from gpustack.model.resolution import Pick
from gpustack.plan.context import Context

_SUBJECT = "distro-packages"


class SignedModules(Struct, frozen=True, kw_only=True):
    """The packages of signed modules for a driver package, by repository folder and kernel (a pattern)."""

    driver: str
    repos: tuple[str, ...]
    kernel: str
    exact: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


def signed_modules(ctx: Context, pick: Pick) -> tuple[str, ...]:
    """The packages of signed modules for every relevant kernel; () if modules are built on the host.

    They are used with Secure Boot and the distribution's own driver. If the facts lack one of the kernels, none are
    used at all: the driver would load with one kernel and not with the other.
    """
    here = _here(ctx)
    if pick.method != "distro" or ctx.host.secure_boot is not True or not ctx.kernels or not here:
        return ()
    rows = _of(pick, here)
    found = [next((row for row in rows if re.fullmatch(row.kernel, kernel)), None) for kernel in ctx.kernels]
    names: dict[str, None] = {}
    for row, kernel in zip(found, ctx.kernels, strict=True):
        if row is None:
            _warn(ctx, pick, here)
            return ()
        names.update(dict.fromkeys(name.replace("{kernel}", kernel) for name in row.exact))
        names.update(dict.fromkeys(row.follow))
    return tuple(names)


def sources_of_signed_modules(ctx: Context, pick: Pick) -> tuple[str, ...]:
    """The addresses of the facts about signed modules of this pick."""
    return ctx.addresses(*_of(pick, _here(ctx)))


def _here(ctx: Context) -> list[SignedModules]:
    rows = ctx.matrix.rows(_SUBJECT, "signed_modules", SignedModules)
    return [row for row in rows if ctx.host.os.repo in row.repos]


def _of(pick: Pick, rows: list[SignedModules]) -> list[SignedModules]:
    main = pick.offer.package_set("main")
    return [row for row in rows if main is not None and row.driver in main.packages]


def _warn(ctx: Context, pick: Pick, here: list[SignedModules]) -> None:
    fits = {row.driver for row in here if all(re.fullmatch(row.kernel, kernel) for kernel in ctx.kernels)}
    known = f"; they are known for {', '.join(sorted(fits))}" if fits else ""
    ctx.warn(
        f"Secure Boot is on, and for kernel {' and '.join(ctx.kernels)} no modules of driver {pick.version} are known "
        f"that {ctx.base.name} signs{known}. This plan builds them on the host and enrols a key"
    )
