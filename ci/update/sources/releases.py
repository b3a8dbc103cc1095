"""releases.json of the data-centre drivers: which releases exist, from which day, of which branch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import DATE, VERSION, json_of, keys, listing, mapping, text
from update.record import Body, Found, Given, Row, refuse

ADDRESS = "https://docs.nvidia.com/datacenter/tesla/drivers/releases.json"
HAND_OUT = f"{ADDRESS}, as it is"
_BRANCH = re.compile(r"\d{3,4}")
_KINDS = {"lts branch": "LTS", "production branch": "PB", "new feature branch": "NFB"}
_RELEASE = ("release_version", "release_date", "release_notes", "architectures", "runfile_url")
_ARCHITECTURES = frozenset({"x86_64", "aarch64", "ppc64le"})


def rows(bodies: Sequence[Body]) -> Given:
    """The releases for Linux; branch and day are those of the list."""
    found = [Found("driver", "releases", row) for body in bodies for row in _releases(body)]
    return Given(tuple(found))


def _releases(body: Body) -> Iterator[Row]:
    if body.address != ADDRESS:
        raise refuse(body.address, "is not the address of the list")
    for branch, about in json_of(body).items():
        if not _BRANCH.fullmatch(branch):
            raise refuse(body.address, f"has the unknown key {branch!r}")
        known = mapping(about, branch)
        keys(known, ("type", "driver_info"), branch, needed=("type", "driver_info"))
        if known["type"] not in _KINDS:
            raise refuse(branch, f"is of the unknown type {known['type']!r}")
        for one in listing(known["driver_info"], branch):
            yield _release(branch, mapping(one, branch))


def _release(branch: str, one: Row) -> Row:
    keys(one, _RELEASE, branch, needed=_RELEASE)
    number = text(one, "release_version", VERSION, branch)
    if number.partition(".")[0] != branch:
        raise refuse(branch, f"has the release {number} of another branch")
    files = mapping(one["runfile_url"], number)
    if set(files) - _ARCHITECTURES or set(listing(one["architectures"], number)) != set(files):
        raise refuse(number, "has an unknown architecture")
    if not all(isinstance(address, str) and f"/{number}/" in address for address in files.values()):
        raise refuse(number, "has the files of another release")
    if f"-{number.replace('.', '-')}/" not in str(one["release_notes"]):
        raise refuse(number, "has the notes of another release")
    day = {"date": text(one, "release_date", DATE, number)} if one["release_date"] else {}
    return {"version": number, "os": ["linux"], "branch": branch, **day, "src": ["dc_list"]}
