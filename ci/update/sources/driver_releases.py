"""Releases of the driver, by all lists that name them: the day, the channels and the branch of each.

None of them is NVIDIA's whole list: they confirm rows of the facts, and a person decides about a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from update.record import Body, Found, Given, Row, refuse
from update.sources import csaf, driver_lists

HAND_OUT = "tags with days, lists of drivers and bulletins, each by its address"
_SETTINGS = "https://github.com/NVIDIA/nvidia-settings.git"
_OPEN = "https://github.com/NVIDIA/open-gpu-kernel-modules.git"
_PATCHED = "https://github.com/keylase/nvidia-patch/blob/7b022ce1/drivers.json"
_NAMED = "https://github.com/keylase/nvidia-patch/commits/7b022ce1"
_FILES = "https://github.com/flathub/org.freedesktop.Platform.GL.nvidia/tree/62952f73/data"
_UNIX = "https://github.com/aaronp24/nvidia-versions/commits/2b82fa6f/nvidia-versions.txt"
_LATEST = "https://github.com/endoflife-date/release-data/commits/main/releases/nvidia-driver.json"
_BUNDLED = "https://github.com/Jimver/cuda-toolkit/tree/main/src/links"
_BULLETINS = "https://raw.githubusercontent.com/NVIDIA/product-security/"
_SOURCES = {
    _SETTINGS: "settings_tags",
    _OPEN: "open_tags",
    _PATCHED: "keylase",
    _NAMED: "keylase",
    _FILES: "flathub",
    _UNIX: "nv_versions",
    _LATEST: "eol_data",
    _BUNDLED: "cuda_bundle",
}
_OLDEST = 384
"""The first branch whose releases the facts have from these lists; older ones are those of a changelog."""
Place = tuple[str, str]
"""A release and its system."""


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each release and system."""
    given = {body.address: body for body in bodies if not body.address.startswith(_BULLETINS)}
    if strange := set(given) - set(_SOURCES):
        raise refuse(min(strange), "is no list of drivers that the facts use")
    return Given(tuple(_Lists(given, [body for body in bodies if body.address not in given]).rows()))


class _Lists:
    """What each list says; {} for one that is not there."""

    def __init__(self, given: Mapping[str, Body], bulletins: Sequence[Body]) -> None:
        def read(address: str) -> list[Body]:
            return [given[address]] if address in given else []

        self.settings = {name: day for body in read(_SETTINGS) for name, day in driver_lists.tags(body).items()}
        self.open = {name: day for body in read(_OPEN) for name, day in driver_lists.tags(body).items()}
        self.patched = {place for body in read(_PATCHED) for place in driver_lists.patched(body)}
        self.named = {place: day for body in read(_NAMED) for place, day in driver_lists.named(body).items()}
        self.files = {name: is_dev for body in read(_FILES) for name, is_dev in driver_lists.files(body).items()}
        self.unix = {name: names for body in read(_UNIX) for name, names in driver_lists.channels(body).items()}
        self.latest = {place: day for body in read(_LATEST) for place, day in driver_lists.latest(body).items()}
        self.bundled = {place: cuda for body in read(_BUNDLED) for place, cuda in driver_lists.bundled(body).items()}
        self.fixed = _fixed(bulletins)
        self._linux = {*self.settings, *self.open, *self.files, *self.unix}
        self._linux |= {release for release, system in self.patched if system == "linux"}
        self._branches = sorted({int(release.partition(".")[0]) for release in self._linux})

    def rows(self) -> list[Found]:
        places = {(release, "linux") for release in self._linux}
        places |= {*self.patched, *self.latest, *self.bundled, *self.fixed}
        known = sorted(place for place in places if int(place[0].partition(".")[0]) >= _OLDEST)
        return [Found("driver", "releases", self._row(place)) for place in known]

    def _row(self, place: Place) -> Row:
        release, system = place
        major = int(release.partition(".")[0])
        branch = max((one for one in self._branches if one <= major), default=major)
        row: Row = {"version": release, "os": [system], "branch": str(branch), "status": "released"}
        channels = list(self.unix.get(release, ())) if system == "linux" else []
        channels += [name for name, lists in (("dc", self.latest), ("cuda-bundled", self.bundled)) if place in lists]
        if system == "linux" and self.files.get(release):
            channels.append("vulkan-beta")
            row |= {"kind": "developer", "status": "developer"}
        elif channels == ["unix-beta"]:
            row |= {"kind": "beta", "status": "beta"}
        row |= {"cuda": self.bundled[place]} if place in self.bundled else {}
        row |= {"open": "true"} if system == "linux" and release in self.open else {}
        row |= {"channel": channels} if channels else {}
        row |= self._dated(place)
        if system == "windows" and place in self.patched and not {"date", "channel"} & set(row):
            row["basis"] = "patch list"
        if day := self.named.get(place, "") if "date" not in row else "":
            row |= {"date": day, "date_kind": "patch list"}
        return {**row, "src": [*dict.fromkeys(_SOURCES.values())]}

    def _dated(self, place: Place) -> Row:
        """The day: of the bulletin if that is not later than the lists', else of the first list that has one."""
        days = {"data-centre list": self.latest.get(place, "")}
        if place[1] == "linux":
            days |= {"open-module tag": self.open.get(place[0], ""), "tag": self.settings.get(place[0], "")}
        known = [(day, kind) for kind, day in days.items() if day]
        bulletin = self.fixed.get(place, "")
        if bulletin and all(bulletin <= day for day, _ in known[:2]):
            known = [(bulletin, "bulletin")]
        return {"date": known[0][0], "date_kind": known[0][1]} if known else {}


def _fixed(bulletins: Sequence[Body]) -> dict[Place, str]:
    """The day of the first bulletin that names each release as fixed."""
    found = csaf.rows(bulletins).rows
    days = {one.row["bulletin"]: one.row["date"] for one in found if one.table == "bulletins"}
    fixed: dict[Place, str] = {}
    for one in found:
        if one.table == "fixed" and one.row["component"] == "driver":
            place, day = (one.row["fixed"], one.row["os"]), days[one.row["bulletin"]]
            fixed[place] = min(day, fixed.get(place, day))
    return fixed
