"""The generated rows come out of the recorded bodies as they stand in the facts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from update.file_sums import quoted
from update.folders import folders, is_given_back
from update.merge import Diff, merge
from update.record import Body, load
from update.reproduce import is_whole, shares, sums, total
from update.sources import ALL, source
from update.tables import Facts, declined, key_of
from update.witnesses import Witnesses

BODIES = Path(__file__).parent / "bodies"
RECORDED = sorted(path.stem for path in BODIES.glob("*.xz"))
WHOLE = {
    "container-toolkit.releases": 50,
    "cuda-image-tags.tags": 295,
    "cuda-installers.archives": 172,
    "cuda-installers.manifest_sums": 29,
    "cuda-redist.archives": 5900,
    "cudnn-archives.archives": 440,
    "cudnn.package_suffixes": 27,
    "cudnn.packages": 218,
    "cudnn.pairings": 92,
    "cudnn.pip_versions": 168,
    "cudnn.repository_evidence": 230,
    "dcgm.releases": 26,
    "driver-installers.archives": 430,
    "driver-installers.other_files": 166,
    "driver.releases": 630,
    "ffmpeg.releases": 102,
    "frameworks.framework_builds": 1697,
    "frameworks.framework_files": 3500,
    "gdrcopy.releases": 14,
    "gpu-lists.branches": 25,
    "gpu-lists.devices": 295,
    "gpu-names.instances": 110,
    "gpu-names.vgpu_guests": 86,
    "gpus.boards": 55,
    "gpus.products": 1126,
    "nccl.builds": 37,
    "nccl.gpu_code": 61,
    "nccl.images": 58,
    "nccl.packages": 160,
    "nccl.repository_evidence": 182,
    "nccl.wheels": 52,
    "nv-codec-headers.releases": 57,
    "security.bulletins": 24,
    "security.fixed": 141,
    "systems.ends": 54,
    "tensorrt-archives.archives": 79,
    "triton.images": 91,
    "wheels.archives": 1461,
}
"""How many rows of each table no hand is needed for. A number that falls is a row that the vendor no longer states."""


FLOOR = 0.63
"""The share of the rows about releases, packages, files and machines that recorded bodies give whole."""


@cache
def facts() -> Facts:
    return Facts()


@cache
def bodies(name: str) -> tuple[Body, ...]:
    return load(BODIES / f"{name}.xz")


@cache
def diff(name: str) -> Diff:
    given = source(name).rows(bodies(name))
    witnesses = Witnesses(facts())
    witnesses.add(name, given)
    return merge(name, given, facts(), witnesses, declined())


def test_every_source_with_public_bodies_has_recorded_ones() -> None:
    assert set(RECORDED) == {one.name for one in ALL} - {"apt", "rpm", "releases"}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_bodies_contradict_no_row(name: str) -> None:
    found = diff(name)
    assert found.stops == ()
    assert found.grown == ()
    assert found.same > 0


def test_the_tables_that_bodies_give_whole() -> None:
    given = (source(name).rows(bodies(name)) for name in RECORDED)
    found = {f"{one.subject}.{one.table}": one.whole for one in shares(given, facts()) if one.whole}
    assert {name: count for name, count in found.items() if count < WHOLE.get(name, 0)} == {}
    assert set(found) == set(WHOLE)


def test_the_share_of_all_rows_does_not_fall() -> None:
    given = [source(name).rows(bodies(name)) for name in RECORDED]
    assert sum(one.whole for one in shares(given, facts())) > FLOOR * total(facts())


def test_every_checksum_comes_out_of_a_body_or_is_of_a_file_that_was_made_here() -> None:
    found = sums([source(name).rows(bodies(name)) for name in RECORDED], facts())
    assert found.lacking == ()
    assert [line.partition(": ")[0] for line in found.own] == [
        f"tensorrt-tools.rtx_kits tensorrt_rtx cu12 {release} libs + cp312 bindings, tar.xz"
        for release in ("1.4.0.76", "1.7.1.116")
    ]
    assert found.known > 11_600


def test_every_sum_that_somebody_quotes_is_one_of_the_facts() -> None:
    """Recorded quotes are cut to files of the facts: so a name that is read wrong is seen."""
    given = source("quotes").rows(bodies("quotes"))
    read = {one.sum for one in quoted(given.sums, facts())}
    assert [one for one in given.sums if one not in read] == []
    assert len(read) > 190


def test_rows_that_say_that_they_are_generated_come_out_of_the_bodies_or_have_none() -> None:
    """A mark on a source is a promise: a marked row is what a body gives, or no body of its release was recorded."""
    made = {
        (one.subject, one.table, key_of(one.row, facts().key(one.subject, one.table))): one.row
        for name in RECORDED
        for one in source(name).rows(bodies(name)).rows
    }
    marked = absent = 0
    for subject, table in {(subject, table) for subject, table, _ in made}:
        makes = {key: one.get("makes", "").split() for key, one in facts().document(subject)["sources"].items()}
        for key, row in facts().by_key(subject, table).items():
            if all(table in makes[src] for src in row["src"]):
                marked += 1
                absent += (subject, table, key) not in made
                assert is_whole(row, made.get((subject, table, key), row)), f"{subject}.{table} {key}"
    assert marked > 11_000
    assert absent < marked * 0.3, "bodies of most generated rows are recorded"


def test_every_folder_of_the_vendor_is_read_back_as_its_row_says() -> None:
    read = [(one, is_given_back(one, facts())) for one in folders(facts())]
    assert [f"{one.row['component']} {one.row['repo']} {one.arch}" for one, is_back in read if not is_back] == []
    assert len(read) > 160


def test_a_folder_that_lacks_a_release_of_its_row_is_noticed() -> None:
    full = next(one for one in folders(facts()) if one.row["component"] == "cuda" and len(one.listed) > 2)
    assert not is_given_back(full._replace(listed=(*full.listed, "99.9.9")), facts())
