"""What the host's own package repositories offer: ``plan --live`` and ``matrix update --repos``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.cli import frame
from gpustack.errors import UsageError

if TYPE_CHECKING:
    from gpustack.cli.stack_options import StackOptions
    from gpustack.install.supply.site import Site
    from gpustack.matrix.index import Matrix
    from gpustack.model.host import Host

_FILE = "site.yaml"


def live_facts(facts: Matrix, host: Host, question: StackOptions) -> Matrix:
    """The facts with what the lists of a host or its tree offer now. Raises UsageError for a described host."""
    import tempfile

    from gpustack.matrix.index import with_overlay

    if question.host is not None or question.os is not None:
        msg = "--live reads the package lists of this machine or of a tree, and this host is a description"
        raise UsageError(msg, code="conflicting-options", hint="omit --os and --host, or omit --live")
    site = _read(facts, host, question.root)
    for line in site.unknown:
        frame.warn(f"the repositories of this host have a release that the facts do not cover: {line}")
    if not site.overlay:
        frame.warn(f"--live: no list counts{_why(site)}; the facts alone are used")
        return facts
    with tempfile.TemporaryDirectory(prefix="gpustack-") as folder:
        (Path(folder) / _FILE).write_text(site.overlay, encoding="utf-8")
        return with_overlay(facts, Path(folder))


def update_repos(root: Path | None) -> int:
    """Store what the lists of this machine or of a tree offer, for all later commands."""
    from gpustack.detect.api import detect
    from gpustack.matrix.age import OldFactsError
    from gpustack.matrix.feed.generations import only_writer, unwritable
    from gpustack.matrix.index import load_matrix
    from gpustack.matrix.updates import SITE, own_folder
    from gpustack.system.files import write_atomically

    facts = load_matrix(has_site=False)
    site = _read(facts, detect(root, facts), root)
    if not site.overlay:
        msg = f"no list of a package repository counts{_why(site)}"
        hint = "read the lists: `apt-get update`, `dnf makecache` or `zypper refresh`"
        raise OldFactsError(msg, code="update-unusable", hint=hint)
    folder = own_folder()
    with only_writer(folder):
        try:
            (folder / SITE).mkdir(mode=0o755, exist_ok=True)
            write_atomically(folder / SITE / _FILE, site.overlay)
        except OSError as exc:
            raise unwritable(folder, exc) from exc
    lines = [f"{one.address}, read on {one.date}: {len(one.versions)} packages" for one in site.lists]
    lines += [f"{component}: up to {newest}" for component, newest in site.newest.items()]
    lines += [f"not covered by the facts: {line}" for line in site.unknown]
    frame.page("\n".join(lines))
    for one in site.unread:
        frame.warn(f"{one.path}: {one.why}")
    return 0


def _read(facts: Matrix, host: Host, root: Path | None) -> Site:
    from gpustack.install.root import InstallRoot
    from gpustack.install.supply.offered import offers
    from gpustack.install.supply.site import site_of

    return site_of(facts, host, offers(InstallRoot(root), host.arch or ""))


def _why(site: Site) -> str:
    """The first list that was refused, and why."""
    return f" ({site.unread[0].path}: {site.unread[0].why})" if site.unread else ""
