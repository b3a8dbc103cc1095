"""The addresses that are read every day. Those of manifests, bulletins and lists of GPUs are given by a person."""

from __future__ import annotations

from collections.abc import Iterator

from update.fetch import fetch
from update.record import Body
from update.sources import releases, tags, wheels
from update.tables import Facts

NAMES = ("tags", "releases", "wheels", "apt")


def addresses(name: str, facts: Facts, index: str) -> list[str]:
    """What a daily run reads for a source; ``index`` is the package index."""
    if name == "tags":
        return [f"https://github.com/{one}.git/info/refs?service=git-upload-pack" for one in tags.REPOSITORIES]
    if name == "releases":
        return [releases.ADDRESS]
    if name == "wheels":
        return [f"{index.rstrip('/')}/{project}/" for project in wheels.PROJECTS]
    rows = facts.rows("repositories", "repositories")
    folders = [row["url"] for row in rows if row.get("family") == "apt" and not row["arch"].startswith("cross-")]
    return [f"{folder}{file}" for folder in folders for file in ("Release", "Packages")]


def bodies(name: str, facts: Facts, index: str, mirror: str = "") -> Iterator[Body]:
    """The bodies of a daily run. ``mirror`` is a server with copies of all others, below the names of their hosts."""
    for address in addresses(name, facts, index):
        if mirror and not address.startswith(index):
            yield fetch(f"{mirror.rstrip('/')}/{address.removeprefix('https://')}")._replace(address=address)
        else:
            yield fetch(address)
