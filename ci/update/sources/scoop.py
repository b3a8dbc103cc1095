"""Sums of CUDA's installers for Windows that Scoop pins: the states of its manifest, one for each version."""

from __future__ import annotations

import re
from collections.abc import Sequence

from update.form import MD5, SHA256, json_of, mapping
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "bucket/cuda*.json of ScoopInstaller/Main or Versions at a commit, its version, addresses and sums alone"
_ADDRESS = re.compile(r"https://github\.com/ScoopInstaller/(?:Main|Versions)/blob/[0-9a-f]+/bucket/cuda[\d.]*\.json")
_URL = re.compile(
    r"https?(://developer\.(?:download\.)?nvidia\.com/compute/cuda/\S+/(cuda_(\d+\.\d+\.\d+)(?:_(\d{3}\.\d{2}))?_win\S*?))"
    r"(?:#/\S+)?"
)


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each installer. One that is pinned by another kind of sum later has both."""
    found: dict[str, Row] = {}
    for row in map(_row, bodies):
        known = found.setdefault(row["file"], row)
        if any(known.get(name, value) != value for name, value in row.items()):
            raise refuse(row["url"], f"is pinned to {row}, and to {known}")
        known |= row
    return Given(tuple(Found("cuda-installers", "archives", row) for row in found.values()))


def _row(body: Body) -> Row:
    if not _ADDRESS.fullmatch(body.address):
        raise refuse(body.address, "is not Scoop's manifest of CUDA")
    document = json_of(body)
    about = mapping(mapping(document.get("architecture"), body.address).get("64bit"), body.address)
    url, pinned = _URL.fullmatch(str(about.get("url"))), str(about.get("hash"))
    kind, _, digest = pinned.rpartition(":")
    column = kind or "sha256"
    form = {"md5": MD5, "sha256": SHA256}.get(column)
    if url is None or form is None or not form.fullmatch(digest) or not str(document.get("version")).startswith(url[3]):
        raise refuse(body.address, f"pins {about.get('url')!r} to {pinned!r}")
    row: Row = {"component": "cuda", "version": url[3], "platform": "windows-x86_64", "method": "exe", "file": url[2]}
    row |= {"driver": url[4]} if url[4] else {}
    return {**row, "url": f"https{url[1]}", column: digest, "src": ["scoop"]}
