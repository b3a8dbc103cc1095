"""The whole daily job against a server on loopback: what is as it was, what waits, and what stops one source alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.update.serving import Answer, serving

from update.__main__ import main
from update.daily import NAMES, addresses
from update.indexes import packages, release
from update.record import Body, load
from update.sources import tags
from update.tables import Facts

BODIES = Path(__file__).parent / "bodies"
UNKNOWN = "9.28.1.4"
"""A release of cuDNN whose wheels the index has and the facts have not."""


@cache
def facts() -> Facts:
    return Facts()


@cache
def pages() -> tuple[Body, ...]:
    return tuple(body for body in load(BODIES / "wheels.xz") if body.address.endswith("/"))


def without_unknown(body: Body) -> bytes:
    page = json.loads(body.data)
    page["files"] = [one for one in page["files"] if f"-{UNKNOWN}-" not in one["filename"]]
    return json.dumps(page).encode()


def elsewhere() -> Iterator[tuple[str, bytes]]:
    """Tags, the list of drivers and repository folders, in which nothing is new."""
    known = {body.address: body.data for body in load(BODIES / "tags.xz")}
    nccl = sorted(f"{'0' * 40} refs/tags/v{row['version']}-1" for row in facts().rows("nccl", "releases"))
    for name in ("tags", "releases", "apt"):
        for address in addresses(name, facts(), ""):
            path = "/mirror/" + address.removeprefix("https://")
            if name == "tags":
                yield path, known.get(address, tags.packets(nccl))
            elif name == "releases":
                yield path, b"{}"
            else:
                data = packages([("cuda-keyring", "1.1-1")])
                yield path, release("x86_64", data) if address.endswith("Release") else data


def grown(path: str) -> Iterator[tuple[str, bytes]]:
    """The index of a folder with a release of CUDA that the facts do not have."""
    folder, data = path.rpartition("/")[0], packages([("cuda-toolkit-99-0", "99.0.0-1")])
    yield from ((f"{folder}/Packages", data), (f"{folder}/Release", release("x86_64", data)))


@pytest.mark.gate
def test_three_days_of_the_daily_job(capsys: pytest.CaptureFixture[str]) -> None:
    """First nothing is new, then there are wheels of a release that nobody judged, then a folder is gone.

    On the last day another folder, read after that one, has a release more: it is told.
    """
    others = {path: Answer(data) for path, data in elsewhere()}
    before = {body.address: Answer(without_unknown(body)) for body in pages()}
    after = {body.address: Answer(body.data) for body in pages()}
    cut = {path: answer for path, answer in others.items() if "/ubuntu2404/x86_64/" not in path}
    cut |= {path: Answer(data) for path, data in grown(next(path for path in cut if "/wsl-ubuntu/" in path))}
    found = []
    for answers in ({**others, **before}, {**others, **after}, {**cut, **after}):
        with serving(answers) as (home, _):
            code = main(["daily", "--index", f"{home}/simple", "--mirror", f"{home}/mirror"])
        lines = capsys.readouterr().out.splitlines()
        assert [name for name in NAMES if any(line.startswith(f"{name}: ") for line in lines)] == list(NAMES)
        found.append((code, sum(": waits: " in line for line in lines), [x for x in lines if "STOPPED" in x]))
    quiet, waiting, broken = found
    assert quiet == (0, 0, [])
    assert waiting[0] == 1
    assert waiting[1] > 0
    assert broken[0] == 2
    assert broken[1] == waiting[1] + 1
    assert [line.rpartition("compute/cuda/")[2] for line in broken[2]] == [
        "repos/ubuntu2404/x86_64/Release: the server answers 404"
    ]
