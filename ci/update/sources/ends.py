"""When systems end, as endoflife.date says: the releases in the head of each of its pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import DATE, text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "products/NAME.md of endoflife-date/endoflife.date, its releases alone"
SYSTEMS = {
    "almalinux": "AlmaLinux",
    "centos": "CentOS Linux",
    "centos-stream": "CentOS Stream",
    "debian": "Debian",
    "fedora": "Fedora",
    "linuxmint": "Linux Mint",
    "mxlinux": "MX Linux",
    "opensuse": "openSUSE Leap",
    "oracle-linux": "Oracle Linux",
    "pop-os": "Pop!_OS",
    "rhel": "RHEL",
    "rocky-linux": "Rocky Linux",
    "sles": "SLES",
    "ubuntu": "Ubuntu",
}
"""The pages that are read, and the names of their systems in the facts."""

_SUPPORTED_LONGER = frozenset({"Debian"})
"""Systems for which the facts keep the end of the longer support too."""
_ADDRESS = re.compile(r"https://github\.com/endoflife-date/endoflife\.date/blob/[0-9a-f]+/products/([a-z-]+)\.md")
_CELL = re.compile(r"\s*-?\s*(releaseCycle|eol|eoes): \"?([^\"\s]+)\"?\s*(?:#.*)?")


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each release of a system."""
    return Given(tuple(Found("systems", "ends", row) for body in bodies for row in _releases(body)))


def _releases(body: Body) -> Iterator[Row]:
    known = _ADDRESS.fullmatch(body.address)
    if known is None or known[1] not in SYSTEMS:
        raise refuse(body.address, "is not the page of a system that the facts use")
    name = SYSTEMS[known[1]]
    for block in re.split(r"(?m)^\s*(?=- releaseCycle:)", text_of(body).partition("releases:\n")[2]):
        cells = dict(found.groups() for line in block.splitlines() if (found := _CELL.fullmatch(line)))
        if not re.fullmatch(r"\d+(\.\d+)*", cells.get("releaseCycle", "")):
            continue  # no number: another edition
        row: Row = {"name": name, "version": cells["releaseCycle"], "src": ["eol"]}
        wanted = {"eol": "eol", **({"eoes": "lts"} if name in _SUPPORTED_LONGER else {})}
        for cell, column in wanted.items():
            if DATE.fullmatch(cells.get(cell, "")):
                row[column] = cells[cell]
        yield row
