"""The lock: a stack with everything installed for it, pinned by version, address, size and checksum."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gpustack.model.host import Host
from gpustack.model.plan import Plan, StackEntry
from gpustack.model.steps import Artifact


class LockedPackage(Struct, frozen=True, kw_only=True):
    """One package at one version. ``file`` is its name in a bundle; unknown values are "" or None.

    ``version`` is as in its database: with the epoch of a .deb, with the release of an .rpm. ``step`` is the step of
    the plan that installs it.
    """

    kind: Literal["deb", "rpm", "wheel"]
    name: str
    version: str
    arch: str = ""
    url: str = ""
    file: str = ""
    size: int | None = None
    sha256: str = ""
    step: str = ""


class Lock(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/lock/v1``.

    ``facts`` is the digest of the facts behind ``plan``; ``packages`` holds every package that the plan
    installed, with dependencies; ``host`` is the machine after the installation (None: not installed yet).
    """

    schema: Literal["gpustack/lock/v1"] = "gpustack/lock/v1"
    facts: str
    stack: dict[str, StackEntry] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    packages: tuple[LockedPackage, ...] = ()
    host: Host | None = None
    plan: Plan
    digest: str = ""
