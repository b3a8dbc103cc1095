"""What is done by programs: services, kernel, installers, builds, environments, containers, and a person."""

from __future__ import annotations

from gpustack.model.actions.base import Action, Argv


class EnableService(Action, frozen=True, kw_only=True):
    """Start a service at boot, and with ``now`` at once."""

    unit: str
    now: bool = False


class DisableService(Action, frozen=True, kw_only=True):
    """Take ``EnableService`` back."""

    unit: str
    now: bool = False


class RestartService(Action, frozen=True, kw_only=True):
    """Stop a service and start it again."""

    unit: str


class RebuildInitramfs(Action, frozen=True, kw_only=True):
    """Make the boot images anew, by the system's own command."""

    argv: Argv


class BuildModules(Action, frozen=True, kw_only=True):
    """Have dkms build the kernel modules that are missing for these kernels."""

    kernels: tuple[str, ...]


class Reboot(Action, frozen=True, kw_only=True):
    """Boot the machine anew, by systemd where it is there."""

    systemd: bool = True


class RunInstaller(Action, frozen=True, kw_only=True):
    """Run a vendor's installer with these words. ``touches`` are places that it changes besides settings."""

    path: str
    arguments: Argv = ()
    touches: tuple[str, ...] = ()


class Clone(Action, frozen=True, kw_only=True):
    """Clone a repository into a new folder at a tag, which has to stand for this commit."""

    url: str
    tag: str
    commit: str
    folder: str


class Configure(Action, frozen=True, kw_only=True):
    """Run the configure of the sources in ``folder``; ``path`` are the folders with programs."""

    folder: str
    prefix: str
    path: str
    arguments: Argv = ()


class Make(Action, frozen=True, kw_only=True):
    """Run make in a folder; ``words`` are goals and variables, ``path`` the folders with programs ("" the usual).

    ``parallel``: on all processors. ``touches`` are the places that the goals change besides the folder.
    """

    folder: str
    words: Argv = ()
    path: str = ""
    parallel: bool = False
    touches: tuple[str, ...] = ()


class MakeVenv(Action, frozen=True, kw_only=True):
    """Make a virtual environment of Python."""

    folder: str


class InstallWheels(Action, frozen=True, kw_only=True):
    """Install the wheels of a requirements file into an environment, each by its sum and nothing else.

    ``projects`` names them as NAME==VERSION. ``wheels`` is a folder that they come from, "" for the package index;
    ``index`` a further index, of the vendor's own, that has what the other one lacks.
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
    """Fetch a container image."""

    engine: str
    reference: str


class RemoveImage(Action, frozen=True, kw_only=True):
    """Take ``PullImage`` back."""

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
    """Stop a container and remove it."""

    engine: str
    name: str


class AwaitServer(Action, frozen=True, kw_only=True):
    """Ask an address until it answers well, for some minutes."""

    url: str


class Verify(Action, frozen=True, kw_only=True):
    """Have gpustack verify these components."""

    components: tuple[str, ...]


class Run(Action, frozen=True, kw_only=True):
    """Run a program that has no type of its own, and that changes nothing but what is said here.

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
    """A person does it: ``commands`` ask questions, or are examples."""

    commands: tuple[Argv, ...] = ()


class Words(Action, frozen=True, kw_only=True):
    """A command of a plan that says no more than its words: of the first edition, or written by hand.

    The one action whose meaning is worked out from words (`gpustack.plan.former`).
    """

    argv: Argv
