"""Where ``gpustack install`` gets its plan and files: the network, a bundle, or a lock; and the lock it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpustack.cli import frame
from gpustack.cli.outputs import STANDARD, demand_place, save
from gpustack.errors import DocumentError, GpustackError, UsageError

if TYPE_CHECKING:
    from gpustack.install.journal.records import Origin
    from gpustack.install.options import Downloader
    from gpustack.install.supply.bundle import Bundle
    from gpustack.model.host import Host
    from gpustack.model.lock import Lock
    from gpustack.model.plan import Plan


class InstallSources(Struct, frozen=True, kw_only=True):
    """``source`` is the lock that provides the plan, ``target`` the file for the lock of what was installed.

    ``origin`` describes all this for the journal.
    """

    bundle: Bundle | None = None
    source: Lock | None = None
    mirrors: dict[str, str] = {}
    target: Path | None = None
    origin: Origin

    def named(self, options: Origin) -> InstallSources:
        """The same, with further options for the journal that it does not have yet."""
        return replace(self, origin=self.origin.or_else(options))

    def plan(self, root: Path | None) -> Plan | None:
        """The plan of the bundle or the lock; None without either."""
        if self.bundle is not None:
            from gpustack.install.supply.offline import offline_plan, place_for

            return offline_plan(self.bundle, place_for(self.bundle, root))
        if self.source is not None:
            from gpustack.install.lock.document import locked_plan

            return locked_plan(self.source)
        return None

    def words(self) -> str:
        """What the user must know about these sources before confirming; "" if the plan says it all."""
        if self.bundle is None:
            return ""
        manifest = self.bundle.manifest
        return (
            f"Bundle {self.bundle.folder}: {len(manifest.files)} files, each as it was signed\n"
            f"  signed with the key {manifest.fingerprint}\n"
            "  compare it with what `gpustack fetch` printed; --fingerprint accepts that key alone"
        )

    def lay(self, root: Path | None) -> None:
        """Put packages where programs in ``root`` find them. Raises GpustackError."""
        if self.bundle is not None:
            from gpustack.install.supply.offline import lay

            lay(self.bundle, root)

    def downloader(self, say: Callable[[str], None]) -> Downloader:
        """The downloader for these sources."""
        if self.bundle is not None:
            return self.bundle
        from gpustack.install.supply.downloads import Fetcher, patience_of

        return Fetcher(mirrors=self.mirrors, patience=patience_of(self.origin.min_speed), say=say)

    def demand_lock_places(self, root: Path | None) -> None:
        """Raise GpustackError before an installation whose lock could not be written.

        Only a lock is ever replaced by one: UsageError for any other file.
        """
        from gpustack.cli.outputs import demand_lock_place
        from gpustack.install.lock.of_run import FILE
        from gpustack.install.root import InstallRoot
        from gpustack.install.run.state import state_folder

        own = state_folder(InstallRoot(root)) / FILE
        if own.exists():
            demand_place(own, "move the existing file away, or mount the file system writable")
        if self.target is not None:
            demand_place(self.target, "choose another --lock")
            demand_lock_place(self.target)

    def write_lock(self, root: Path | None, detect: Callable[[], Host]) -> None:
        """Write the lock of the last run for ``status``, and where the user wants it.

        Raises GpustackError if that fails; by then everything is installed, and the next ``--resume`` writes it.
        """
        from gpustack.install.lock import document as locks
        from gpustack.install.lock.of_run import lock_of_last_run, save_last
        from gpustack.install.root import InstallRoot
        from gpustack.install.run.state import runs, state_folder

        known = self.bundle.lock if self.bundle is not None else self.source
        done = runs(state_folder(InstallRoot(root)))
        if not done:
            return
        try:
            made = lock_of_last_run(root, known.plan if known is not None else done[-1].plan(), detect(), known)
            save_last(root, made)
            if self.target is not None:
                save(locks.dump(made), self.target, "--lock", fault=GpustackError)
            done[-1].note_lock()
        except GpustackError as error:
            where = f"{error.where}: " if error.where else ""
            msg = f"everything is installed, but the lock was not written: {where}{error.message}"
            hint = "\n".join(filter(None, (error.hint, "then `gpustack install --resume` writes the lock")))
            raise GpustackError(msg, code="not-writable", hint=hint) from error


def open_sources(what: list[str], origin: Origin) -> InstallSources:
    """The sources that the options name. Raises UsageError, DocumentError, GpustackError."""
    from gpustack.install.lock.document import is_lock

    if origin.bundle and what:
        msg = "a bundle contains its own plan"
        raise UsageError(
            msg, code="conflicting-options", where="--bundle", hint=f"gpustack install --bundle {origin.bundle}"
        )
    if origin.fingerprint and not origin.bundle:
        msg = "is the key of a bundle, but no bundle is given"
        raise UsageError(msg, code="conflicting-options", where="--fingerprint", hint="give --bundle DIR as well")
    is_from_lock = not origin.bundle and len(what) == 1 and what[0].endswith(".json") and is_lock(Path(what[0]))
    return _supply(replace(origin, source=_absolute(Path(what[0]) if is_from_lock else None)))


def origin_of(
    *,
    bundle: Path | None,
    fingerprint: str | None,
    mirrors: list[str],
    lock: Path | None,
    min_speed: float | None = None,
) -> Origin:
    """The sources that the options name, as the journal keeps them. Raises UsageError."""
    from gpustack.install.journal.records import Origin

    return Origin(
        mirrors=_parsed(mirrors) if mirrors else {},
        bundle=_absolute(bundle),
        fingerprint="" if fingerprint is None else _parsed_fingerprint(fingerprint),
        lock=_absolute(lock),
        min_speed=min_speed,
    )


def _parsed_fingerprint(text: str) -> str:
    from gpustack.install.supply.bundle import parse_fingerprint

    return parse_fingerprint(text)


def _absolute(path: Path | None) -> str:
    return "" if path is None else str(path if path == STANDARD else path.absolute())


def _parsed(mirrors: list[str]) -> dict[str, str]:
    from gpustack.install.supply.downloads import parse_mirrors

    return parse_mirrors(mirrors)


def reopen_sources(origin: Origin, say: Callable[[str], None]) -> InstallSources:
    """The sources that a run began with. Raises GpustackError if its bundle no longer exists.

    The lock behind the plan only adds detail about what was installed, so a run continues without it.
    """
    try:
        return _supply(origin)
    except DocumentError as error:
        if origin.bundle:
            hint = "the run was started from this bundle: restore it to that place, or `gpustack install --rollback`"
            raise GpustackError(error.message, code=error.code, where=error.where, hint=hint) from error
        say(f"continues without the lock that the plan came from: {error.where}: {error.message}")
        return _supply(replace(origin, source=""))


def _supply(origin: Origin) -> InstallSources:
    from gpustack.install.lock.document import load

    target = Path(origin.lock) if origin.lock else None
    if origin.bundle:
        from gpustack.install.supply.bundle import Bundle

        bundle = Bundle(Path(origin.bundle), fingerprint=origin.fingerprint, say=frame.say)
        # A resumed run accepts no bundle signed by another key.
        return InstallSources(
            bundle=bundle, target=target, origin=replace(origin, fingerprint=bundle.manifest.fingerprint)
        )
    source = load(Path(origin.source)) if origin.source else None
    return InstallSources(source=source, mirrors=origin.mirrors, target=target, origin=origin)
