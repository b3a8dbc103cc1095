"""Actions of programs: services, kernel, installers, builds, environments, containers, and steps by hand."""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv


class EnableService(Action, frozen=True, kw_only=True):
    """Enable a service at boot, and with ``now`` start it."""

    unit: str
    now: bool = False


class DisableService(Action, frozen=True, kw_only=True):
    """The inverse of ``EnableService``."""

    unit: str
    now: bool = False


class RestartService(Action, frozen=True, kw_only=True):
    """Restart a service."""

    unit: str


class RebuildInitramfs(Action, frozen=True, kw_only=True):
    """Rebuild the initramfs with the system's own command."""

    argv: Argv


class BuildModules(Action, frozen=True, kw_only=True):
    """Build the missing kernel modules for these kernels with dkms."""

    kernels: tuple[str, ...]


class Reboot(Action, frozen=True, kw_only=True):
    """Reboot the machine, through systemd if present."""

    systemd: bool = True


class RunInstaller(Action, frozen=True, kw_only=True):
    """Run a vendor's installer with these arguments. ``touches`` are places that it changes besides settings."""

    path: str
    arguments: Argv = ()
    touches: tuple[str, ...] = ()


class Clone(Action, frozen=True, kw_only=True):
    """Clone a repository into a new folder at a tag, which must stand for this commit."""

    url: str
    tag: str
    commit: str
    folder: str


class Configure(Action, frozen=True, kw_only=True):
    """Run the configure script of the sources in ``folder``; ``path`` are the folders of programs."""

    folder: str
    prefix: str
    path: str
    arguments: Argv = ()


class Make(Action, frozen=True, kw_only=True):
    """Run make in a folder; ``words`` are goals and variables, ``path`` the folders of programs ("" the default).

    ``parallel``: on all processors. ``touches`` are the places that the goals change besides the folder.
    """

    folder: str
    words: Argv = ()
    path: str = ""
    parallel: bool = False
    touches: tuple[str, ...] = ()


class MakeVenv(Action, frozen=True, kw_only=True):
    """Create a Python virtual environment."""

    folder: str


class InstallWheels(Action, frozen=True, kw_only=True):
    """Install the wheels of a requirements file into an environment, each pinned by checksum.

    ``projects`` names them as NAME==VERSION. ``wheels`` is a folder that they come from, "" for the package index;
    ``index`` the vendor's own index for what the first one lacks.
    """

    home: str
    requirements: str
    projects: tuple[str, ...] = ()
    wheels: str = ""
    index: str = ""


class RemoveWheels(Action, frozen=True, kw_only=True):
    """Remove projects from an environment."""

    home: str
    names: tuple[str, ...]


class PullImage(Action, frozen=True, kw_only=True):
    """Pull a container image."""

    engine: str
    reference: str


class RemoveImage(Action, frozen=True, kw_only=True):
    """The inverse of ``PullImage``."""

    engine: str
    reference: str


class StartContainer(Action, frozen=True, kw_only=True):
    """Start a container in the background. ``options`` are the engine's, ``server`` is the command in the container."""

    engine: str
    name: str
    reference: str
    options: Argv = ()
    server: Argv = ()


class RemoveContainer(Action, frozen=True, kw_only=True):
    """Stop and remove a container."""

    engine: str
    name: str


class AwaitServer(Action, frozen=True, kw_only=True):
    """Poll an address until it answers with success, for some minutes."""

    url: str


class Verify(Action, frozen=True, kw_only=True):
    """Run ``gpustack verify`` for these components; ``python`` is the interpreter of their frameworks."""

    components: tuple[str, ...]
    python: str = ""


class Run(Action, frozen=True, kw_only=True):
    """Run a program that has no action type of its own and changes only what is declared here.

    ``touches`` are the places that it changes, ``settings``: and the settings of the system, ``packages``: and its
    packages. It runs with the variables NAME=VALUE of ``environment``, in ``folder`` ("" any); ``old_env`` where the
    system's env cannot change folders (coreutils before 8.28).
    """

    argv: Argv
    environment: Argv = ()
    folder: str = ""
    old_env: bool = False
    touches: tuple[str, ...] = ()
    settings: bool = False
    packages: bool = False


class ByHand(Action, frozen=True, kw_only=True):
    """A step by hand: ``commands`` are interactive, or examples."""

    commands: tuple[Argv, ...] = ()


class Words(Action, frozen=True, kw_only=True):
    """A command of a plan that consists only of words: of the first edition, or written by hand.

    The only action whose meaning is derived from its words (`gpustack.plan.former`).
    """

    argv: Argv
