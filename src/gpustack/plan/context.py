"""The input of every part of the planner: host, request, resolution, facts, and simple conclusions from them."""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct

from gpustack.errors import UnsupportedError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.places import System
from gpustack.model.request import Request
from gpustack.model.resolution import Pick, Resolution
from gpustack.versions import is_within

_RELEASE = re.compile(r"[0-9][A-Za-z0-9._+~-]{0,120}")


class Context(Struct, frozen=True, kw_only=True, dict=True):
    """One planning run. ``warnings`` collects what the reader of the plan must know; nothing else changes."""

    host: Host
    request: Request
    resolution: Resolution
    matrix: Matrix
    warnings: list[str] = []

    @cached_property
    def system(self) -> System:
        """The row of the host's operating system. Raises UnsupportedError if the facts have none."""
        row = self.matrix.system_of(self.host)
        if row is not None:
            return row
        name = self.host.os.id or ""
        known = sorted({row.version for row in self.matrix.systems if row.id == name})
        msg = f"unknown system {self.host.os.spelled!r}"
        hint = f"known releases of {name}: {', '.join(known)}" if known else "`gpustack matrix list systems` shows all"
        raise UnsupportedError(msg, code="unknown-system", hint=hint)

    @cached_property
    def base(self) -> System:
        """The system whose packages and repository the host uses: its own row, or that of a derivative's base."""
        return self.matrix.system(self.system.base) or self.system

    @property
    def arch(self) -> str:
        """The architecture in the words of ``uname -m``. Raises UnsupportedError if unknown."""
        if not self.host.arch:
            msg = "the architecture of the host is unknown"
            raise UnsupportedError(msg, code="unknown-architecture", hint="use `--arch x86_64` or `--arch aarch64`")
        return self.host.arch

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel releases that need a module: the running one and the one that boots next."""
        releases = dict.fromkeys((self.host.next_kernel, self.host.kernel))
        return tuple(text for text in releases if text and _RELEASE.fullmatch(text))

    @property
    def is_image(self) -> bool:
        """Whether nothing runs in the target: no service can start, no module load, nothing reboot."""
        return self.host.environment in {"container", "chroot"}

    @property
    def can_compute(self) -> bool:
        """Whether a program of this plan can use a GPU after the plan."""
        return bool(self.host.gpus) and not self.is_image and not self.request.target

    @property
    def has_old_env(self) -> bool:
        """Whether ``env`` may lack ``--chdir``, which came with coreutils 8.28."""
        glibc = self.host.glibc or self.system.glibc
        return not (glibc and is_within(glibc, ">=2.27"))

    @property
    def driver_changes(self) -> bool:
        """Whether this plan changes the kernel module."""
        return self.changes("driver") is not None

    @property
    def has_video(self) -> bool:
        """Whether the stack encodes or decodes video, and so requires the driver's video libraries."""
        return any(self.resolution.pick(name) for name in ("ffmpeg", "nv-codec-headers"))

    def changes(self, component: str) -> Pick | None:
        """The pick of a component that is not yet installed in this version, None if there is nothing to do."""
        pick = self.resolution.pick(component)
        return pick if pick is not None and pick.state != "keep" else None

    def version(self, component: str) -> str | None:
        """The version of a component in the resolved stack, or on the host if the stack does not contain it."""
        pick = self.resolution.pick(component)
        if pick is not None:
            return pick.version
        there = self.host.installed.get(component)
        return there.version if there else None

    def warn(self, text: str) -> None:
        """Add a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def addresses(self, *rows: object) -> tuple[str, ...]:
        """The addresses of the sources of matrix rows, each once."""
        keys = tuple(key for row in rows if row is not None for key in getattr(row, "src", ()))
        return self.matrix.addresses(keys)
