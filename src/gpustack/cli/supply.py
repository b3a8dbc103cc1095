"""What ``gpustack install`` takes plan and files from: the net, a bundle, or a lock; and the lock that it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gpustack.errors import UsageError

if TYPE_CHECKING:
    from gpustack.install.bundle import Bundle
    from gpustack.install.options import Downloader
    from gpustack.model.host import Host
    from gpustack.model.lock import Lock
    from gpustack.model.plan import Plan


class Supply(Struct, frozen=True, kw_only=True):
    """``source`` is the lock that the plan comes from, ``target`` the file that gets the lock of what was installed."""

    bundle: Bundle | None = None
    source: Lock | None = None
    mirrors: dict[str, str] = {}
    target: Path | None = None

    def plan(self, root: Path | None) -> Plan | None:
        """The plan of the bundle or the lock; None where neither is given."""
        if self.bundle is not None:
            from gpustack.install.offline import offline_plan, place_for

            return offline_plan(self.bundle, place_for(self.bundle, root))
        if self.source is not None:
            from gpustack.install.lock import locked_plan

            return locked_plan(self.source)
        return None

    def downloader(self, say: Callable[[str], None]) -> Downloader:
        """Whoever brings files."""
        if self.bundle is not None:
            return self.bundle
        from gpustack.install.downloads import Fetcher

        return Fetcher(mirrors=self.mirrors, say=say)

    def write_lock(self, root: Path | None, detect: Callable[[], Host]) -> None:
        """Write the lock of the last run: where ``status`` looks for it, and where the user wants it."""
        from gpustack.install import lock as locks
        from gpustack.install.locking import lock_of_last_run, save_last
        from gpustack.install.state import runs, state_folder
        from gpustack.install.target import Target

        known = self.bundle.lock if self.bundle is not None else self.source
        done = runs(state_folder(Target(root)))
        if not done:
            return
        made = lock_of_last_run(root, known.plan if known is not None else done[-1].plan(), detect(), known)
        save_last(root, made)
        if self.target is not None:
            locks.save(made, self.target)


def supply_of(what: list[str], *, bundle: Path | None, mirrors: list[str], lock: Path | None) -> Supply:
    """What the options name. Raises UsageError, DocumentError, GpustackError."""
    from gpustack.install.downloads import parse_mirrors
    from gpustack.install.lock import is_lock, load

    if bundle is not None:
        from gpustack.install.bundle import Bundle

        if what:
            msg = "a bundle brings its own plan"
            raise UsageError(msg, where="--bundle", hint=f"gpustack install --bundle {bundle}")
        return Supply(bundle=Bundle(bundle), target=lock)
    is_from_lock = len(what) == 1 and what[0].endswith(".json") and is_lock(Path(what[0]))
    source = load(Path(what[0])) if is_from_lock else None
    return Supply(source=source, mirrors=parse_mirrors(mirrors), target=lock)
