"""The addresses that are read every day. Those of manifests, bulletins and lists of GPUs are given by a person."""

from __future__ import annotations

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
