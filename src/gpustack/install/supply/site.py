"""What this site's package repositories offer, as an overlay of the facts.

NVIDIA's folder on a mirror has what the mirror has: where its list was read, the facts about that folder's content give
way to it. The archives of a distribution add what they have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from gpustack.install.supply.offered import Offer, Unread, offers_version, plain
from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS, MIRRORED, PackageSet
from gpustack.model.host import Host
from gpustack.model.request import Method
from gpustack.solve.rows import OWN_REPOSITORY, SITE, HostRows
from gpustack.versions import is_within, version, version_key

MOST_UNKNOWN = 20
"""The most packages of unknown releases that are named."""


class Site(Struct, frozen=True, kw_only=True):
    """The overlay (YAML), the lists that it is made of, those that do not count, and what the facts do not know.

    ``newest`` is the newest offered version of each component, ``unknown`` packages of releases that no fact covers.
    """

    overlay: str
    lists: tuple[Offer, ...]
    unread: tuple[Unread, ...]
    newest: dict[str, str]
    unknown: tuple[str, ...]


def site_of(facts: Matrix, host: Host, found: Iterable[Offer | Unread]) -> Site:
    """What the repositories of a host offer of the components that the facts cover."""
    rows, every = HostRows(facts, host), list(found)
    lists = tuple(one for one in every if isinstance(one, Offer))
    made: list[_Row] = []
    others = [*enumerate(lists)]
    for folder in rows.folders:
        own = [(n, one) for n, one in enumerate(lists) if _is_folder(one, host.os.repo, folder)]
        others = [one for one in others if one not in own]
        made += _rows(facts, rows, "network", own, folder) if own else []
    vendor = [one for one in lists if all(one is not other for _, other in others)]
    made += [row for row in _rows(facts, rows, "distro", others, "any") if row.versions != _NOTHING]
    document = {
        "schema": "gpustack/matrix/v1",
        "subject": "site",
        "about": "What the package repositories of this host offer, as its package manager has read them.",
        "sources": {f"list-{n}": _source(one) for n, one in enumerate(lists)},
        "tables": {
            "availability": {
                "key": _KEY,
                "fields": _FIELDS,
                "rows": [{**asdict(row), "repo": host.os.repo} for row in made],
            }
        },
    }
    return Site(
        overlay=msgspec.json.format(msgspec.json.encode(document), indent=1).decode() if made else "",
        lists=lists,
        unread=tuple(one for one in every if isinstance(one, Unread)),
        newest={row.component: row.versions.rpartition("==")[2] for row in made if row.versions != _NOTHING},
        unknown=tuple(_unknown(facts, rows, vendor))[:MOST_UNKNOWN],
    )


class _Row(Struct, frozen=True, kw_only=True):
    """A row of availability without its folder."""

    component: str
    method: Method
    arch: tuple[str, ...]
    versions: str
    src: tuple[str, ...]
    basis: str = SITE


_KEY = ["component", "method", "repo", "arch"]
_FIELDS = {
    "component": "word", "method": "word", "repo": "word", "arch": "list of word", "versions": "range", "basis": "word",
}  # fmt: skip
_NOTHING = "<0"
"""The range of a component that a folder does not have."""


def _is_folder(offer: Offer, repo: str | None, folder: str) -> bool:
    """Whether a list is of NVIDIA's folder for this system: mirrors keep the end of its address."""
    return bool(repo) and f"/{offer.address}".rstrip("/").endswith(f"/{repo}/{folder}")


def _rows(facts: Matrix, rows: HostRows, method: Method, lists: list[tuple[int, Offer]], folder: str) -> Iterator[_Row]:
    """A row for each component of which the facts name packages; ``lists`` are numbered."""
    offers = [one for _, one in lists]
    for component in COMPONENTS:
        sets = [row for row in rows.packages(component, method) if row.role == "main"]
        if sets and component not in OWN_REPOSITORY and component not in MIRRORED:
            offered = {one.version for one in facts.releases(component) if _has(offers, sets, one.version)}
            yield _Row(
                component=component,
                method=method,
                arch=(folder,),
                versions=" | ".join(f"=={one}" for one in sorted(offered, key=version_key)) or _NOTHING,
                src=tuple(f"list-{n}" for n, _ in lists),
            )


def _has(lists: list[Offer], sets: list[PackageSet], release: str) -> bool:
    """Whether the lists have all packages of one set of a release."""
    return any(
        is_within(release, row.versions)
        and all(any(offers_version(one, name, _pin(row, release)) for one in lists) for name in row.packages)
        for row in sets
    )


def _pin(row: PackageSet, release: str) -> str:
    return row.pin.replace("{version}", release) or f"{release}*"


def _source(one: Offer) -> dict[str, str]:
    address = f"the list of {one.address or 'a repository'} that this host has in {one.path}"
    return {"address": address, "known": "tested", "read": one.date}


def _unknown(facts: Matrix, rows: HostRows, lists: list[Offer]) -> Iterator[str]:
    """Packages of releases later than all that the facts cover, by the pattern of the names of known ones."""
    for component in COMPONENTS:
        releases = facts.releases(component)
        names = {
            name for row in rows.packages(component, "network") if row.role == "main" for name in row.packages
        }  # fmt: skip
        if not names or not releases or component in OWN_REPOSITORY:
            continue
        pattern = re.compile("|".join(sorted({re.sub(r"[0-9]+", "[0-9]+", re.escape(name)) for name in names})))
        newest = version(releases[0].version)
        for one in lists:
            for name in sorted(filter(pattern.fullmatch, one.versions)):
                for text in sorted(one.versions[name]):
                    upstream = re.match(r"[0-9]+(\.[0-9]+)*", plain(text))
                    if upstream is not None and version(upstream[0]) > newest:
                        yield f"{component}: {name} {text}"
