"""Which rows of availability come out of the index of their folder.

NVIDIA's own indexes were not found in public. Those read here are composed in their form, with the releases that the
facts give each folder: so they prove that every folder is read back as its row says, and not that the row is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpustack.matrix.shorthand import Shorthand
from gpustack.versions import Range, Version
from update.indexes import apt, rpm
from update.merge import merge
from update.record import Body, Row
from update.sources import source
from update.tables import Facts
from update.witnesses import Witnesses

COMPONENTS = ("cuda", "driver", "cudnn", "nccl", "tensorrt")


class Folder(NamedTuple):
    """A folder of the vendor's repository with what it has, and its row of availability."""

    row: Row
    arch: str
    listed: tuple[str, ...]
    reader: str
    bodies: tuple[Body, ...]


def folders(facts: Facts) -> Iterator[Folder]:
    """Every folder of each row of availability of the vendor's network repository, with a composed index."""
    families = {row["repo"]: row["family"] for row in facts.rows("repositories", "repositories")}
    short = Shorthand(bounds={row["name"]: row["version"] for row in facts.rows("bounds", "bounds")})
    for component in COMPONENTS:
        subject = component if component not in {"cuda", "driver"} else "repositories"
        releases = [row["version"] for row in facts.rows(component, "releases") if "linux" in row.get("os", ["linux"])]
        for row in facts.rows(subject, "availability"):
            if row["component"] != component or row["method"] != "network":
                continue
            within = Range(short.range(row["versions"]))
            listed = tuple(dict.fromkeys(one for one in releases if Version(one) in within))
            for arch in row["arch"]:
                reader = "apt" if families[row["repo"]] == "apt" else "rpm"
                entries = [(_package(component, one, arch), one) for one in listed]
                composed = (
                    apt(row["repo"], arch, [(name, f"{number}-1") for name, number in entries])
                    if reader == "apt"
                    else rpm(row["repo"], arch, [(name, number, "1") for name, number in entries])
                )
                yield Folder(row, arch, listed, reader, tuple(composed))


def _package(component: str, release: str, arch: str) -> str:
    major, minor = release.split(".")[:2]
    toolkit = arch.replace("cross-linux-", "cross-") if arch.startswith("cross-") else "toolkit"
    names = {
        "cuda": f"cuda-{toolkit}-{major}-{minor}",
        "cudnn": f"libcudnn{major}" if int(major) < 9 else f"libcudnn{major}-cuda-12",
        "nccl": "libnccl2",
        "driver": "cuda-drivers",
    }
    return names.get(component, component)


def is_given_back(folder: Folder, facts: Facts) -> bool:
    """Whether the index of a folder gives all versions of its row, and nothing that the row lacks."""
    given = source(folder.reader).rows(folder.bodies)
    found = [one.row for one in given.rows if one.table == "availability"]
    diff = merge(folder.reader, given, facts, Witnesses(facts))
    changed = [one for one in (*diff.grown, *(one.found for one in diff.waiting)) if one.table == "availability"]
    return [sorted(row["listed"]) for row in found] == [sorted(folder.listed)] and not changed
