"""Indexes of apt repositories (Release and Packages): which versions a folder of the vendor's repository offers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from update.form import text_of
from update.record import Body, Found, Given, refuse
from update.sources.packages import demand_sum, folder_of, offers

HAND_OUT = "Release and Packages of each folder"
_FIELD = re.compile(r"([A-Z][A-Za-z0-9-]*):(?: (.*))?")
_SUM = re.compile(r" ([0-9a-f]{64}) +\d+ (\S+)")
_NEEDED = ("Package", "Version", "Architecture", "Filename", "SHA256")


def rows(bodies: Sequence[Body]) -> Given:
    """The offers of every folder whose Release and Packages are there."""
    releases = {body.address.removesuffix("Release"): body for body in bodies if body.address.endswith("/Release")}
    found: list[Found] = []
    for body in bodies:
        repo, arch, rest = folder_of(body)
        if rest == "Release":
            continue
        if rest != "Packages":
            raise refuse(body.address, "is no index of packages")
        home = body.address.removesuffix("Packages")
        sums = _sums(releases[home]) if home in releases else {}
        demand_sum(body, sums.get("Packages"))
        found += offers(repo, arch, _packages(body))
    return Given(tuple(found))


def _sums(release: Body) -> dict[str, str]:
    """The sums of the section SHA256 of a Release file."""
    _, found, rest = text_of(release).partition("\nSHA256:\n")
    if not found:
        raise refuse(release.address, "has no section SHA256")
    sums = {}
    for line in rest.splitlines():
        if not line.startswith(" "):
            break
        known = _SUM.fullmatch(line)
        if known is None:
            raise refuse(release.address, f"has the line {line[:80]!r}")
        sums[known[2].removeprefix("./")] = known[1]
    return sums


def _packages(body: Body) -> Iterator[tuple[str, str]]:
    for stanza in re.split(r"\n\n+", text_of(body).strip("\n")):
        fields: dict[str, str] = {}
        for line in stanza.splitlines():
            if line.startswith((" ", "\t")):
                continue  # a field goes on
            known = _FIELD.fullmatch(line)
            if known is None or known[1] in fields:
                raise refuse(body.address, f"has the line {line[:80]!r}")
            fields[known[1]] = known[2] or ""
        for name in _NEEDED:
            if not fields.get(name):
                raise refuse(body.address, f"has a package without {name}: {stanza[:60]!r}")
        bare = re.sub(r"^\d+:", "", fields["Version"])
        if f"{fields['Package']}_{bare}_" not in fields["Filename"]:
            raise refuse(body.address, f"has {fields['Package']} {bare} in {fields['Filename'][:100]}")
        yield fields["Package"], fields["Version"]
