"""What a machine may change by itself, and what stops a source or waits for a person."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from update import report
from update.indexes import apt, rpm
from update.merge import Diff, merge
from update.record import Body, Found, Given, SourceError, load
from update.sources import releases, source
from update.sources.guests import guests as guests_of
from update.tables import Facts
from update.witnesses import Witnesses

BODIES = Path(__file__).parent / "bodies"
MANIFEST = "https://developer.download.nvidia.com/compute/cuda/redist/redistrib_{}.json"


@cache
def facts() -> Facts:
    return Facts()


def run(name: str, *bodies: Body) -> Diff:
    given = source(name).rows(bodies)
    witnesses = Witnesses(facts())
    witnesses.add(name, given)
    return merge(name, given, facts(), witnesses)


@cache
def recorded(name: str, part: str) -> Body:
    return next(body for body in load(BODIES / f"{name}.xz") if part in body.address)


def changed(body: Body, old: str, new: str, **place: str) -> Body:
    text = body.data.decode()
    assert old in text
    return body._replace(data=text.replace(old, new, 1).encode(), **place)


def page(**entry: Any) -> Body:
    """A page of the index with one wheel more than was recorded."""
    body = recorded("wheels", "/nvidia-nccl-cu13/")
    document = json.loads(body.data)
    file = "nvidia_nccl_cu13-2.99.1-py3-none-manylinux_2_18_x86_64.whl"
    made = {"filename": file, "hashes": {"sha256": "a" * 64}, "size": 7, "url": f"https://example.com/{file}"}
    document["files"].append({**made, "upload-time": "2026-12-03T08:00:00Z", "yanked": False, **entry})
    document["versions"].append("2.99.1")
    return body._replace(data=json.dumps(document).encode())


def test_a_release_of_which_one_source_knows_is_seen_and_its_wheels_wait() -> None:
    found = run("wheels", page())
    (release,) = found.changes
    assert release.row == {"version": "2.99.1", "date": "2026-12-03", "src": ["pypi"], "status": "seen"}
    assert [one.why for one in found.waiting] == ["only wheels knows nccl 2.99.1"] * 2, "its version and its wheel"


def test_wheels_of_a_release_that_a_second_source_names_are_added() -> None:
    given = source("wheels").rows([page()])
    witnesses = Witnesses(facts())
    witnesses.add("wheels", given)
    tags = recorded("tags", "NVIDIA/nccl")
    last = b"0000"
    line = b"6" * 40 + b" refs/tags/v2.99.1-1\n"
    more = tags._replace(data=tags.data[:-4] + b"%04x" % (len(line) + 4) + line + last)
    witnesses.add("tags", source("tags").rows([more]))
    found = merge("wheels", given, facts(), witnesses)
    assert [one.row["sha256"] for one in found.changes if one.table == "archives"] == ["a" * 64]
    assert not found.waiting


def test_a_place_that_a_person_left_out_is_not_proposed_again() -> None:
    given = source("wheels").rows([page()])
    file = "nvidia_nccl_cu13-2.99.1-py3-none-manylinux_2_18_x86_64.whl"
    left_out = {
        f"wheels.archives nccl 2.99.1 linux-x86_64 nvidia-nccl-cu13 {file}",
        "nccl.wheels nvidia-nccl-cu13 2.99.1",
    }
    assert not merge("wheels", given, facts(), Witnesses(facts()), left_out).waiting


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"attestation": 1}, "unknown key 'attestation'"),
        ({"url": "https://example.com/other.whl"}, "another address"),
        ({"hashes": {"md5": "a" * 32}}, "sha256 is None"),
        ({"size": "7"}, "size '7'"),
        ({"size": True}, "size True"),
        ({"upload-time": "yesterday"}, "upload-time is 'yesterday'"),
    ],
)
def test_what_the_index_has_not_had_so_far_stops_it_by_name(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(SourceError, match=why):
        run("wheels", page(**entry))


def test_a_wheel_that_the_index_no_longer_lists_stops_it() -> None:
    body = recorded("wheels", "/nvidia-nccl-cu11/")
    document = json.loads(body.data)
    gone = document["files"].pop(-1)["filename"]
    found = run("wheels", body._replace(data=json.dumps(document).encode()))
    assert any(gone in stop and stop.endswith("the row vanishes") for stop in found.stops)
    assert not found.changes


def test_a_sum_that_changes_stops_the_source() -> None:
    body = recorded("wheels", "/nvidia-nccl-cu11/")
    known = json.loads(body.data)["files"][-1]["hashes"]["sha256"]
    found = run("wheels", changed(body, known, "b" * 64))
    assert any(stop.endswith(f"sha256 {known} becomes {'b' * 64}: a sum never changes") for stop in found.stops)
    assert not found.changes


def test_a_manifest_whose_sum_the_facts_do_not_have_gives_a_seen_release_and_waits() -> None:
    body = changed(recorded("redist", "redistrib_13.4.2"), "13.4.2", "13.9.1", address=MANIFEST.format("13.9.1"))
    found = run("redist", body)
    (release,) = found.changes
    assert (release.subject, release.row["version"], release.row["status"]) == ("cuda", "13.9.1", "seen")
    assert found.waiting
    assert {one.why.partition(",")[0] for one in found.waiting} == {"the facts have no sum of its list"}


def test_a_manifest_that_is_another_than_it_was_stops_the_source() -> None:
    found = run(
        "redist",
        changed(recorded("redist", "redistrib_13.4.2"), '"CXX Core Compute Libraries"', '"Core Compute Libraries"'),
    )
    assert any("the list has the sum" in stop for stop in found.stops)


def test_a_new_key_of_a_manifest_is_named() -> None:
    body = changed(recorded("redist", "redistrib_13.4.2"), '"md5":', '"blake3":')
    with pytest.raises(SourceError, match="unknown key 'blake3'"):
        run("redist", body)


def test_a_bulletin_counts_with_its_sum_only() -> None:
    body = recorded("csaf", "5821.json")
    with pytest.raises(SourceError, match=r"is not the document that its \.sha256 names"):
        run("csaf", body)


def drivers(branch: str, *known: dict[str, str]) -> Body:
    """The list of data-centre drivers in its form; a stand-in, since only an excerpt was found in public."""
    home = "https://docs.nvidia.com/datacenter/tesla/tesla-release-notes-"
    entries = [
        {
            "release_notes": f"{home}{one['release_version'].replace('.', '-')}/index.html",
            "architectures": ["x86_64"],
            "runfile_url": {"x86_64": f"https://us.download.nvidia.com/tesla/{one['release_version']}/driver.run"},
            **one,
        }
        for one in known
    ]
    document = {branch: {"type": "production branch", "driver_info": entries}}
    return Body(releases.ADDRESS, "2026-11-23", json.dumps(document).encode())


def test_a_driver_of_the_list_is_seen_until_somebody_has_read_it() -> None:
    found = run("releases", drivers("595", {"release_version": "595.120.03", "release_date": "2026-12-01"}))
    (release,) = found.changes
    assert release.row["status"] == "seen"
    assert (release.row["branch"], release.row["date"]) == ("595", "2026-12-01")


def test_a_date_that_goes_back_stops_the_list() -> None:
    found = run("releases", drivers("580", {"release_version": "580.65.06", "release_date": "2024-08-04"}))
    assert any(stop.endswith("becomes 2024-08-04: the date goes back") for stop in found.stops)


def test_a_driver_without_a_day_is_known_all_the_same() -> None:
    found = run("releases", drivers("460", {"release_version": "460.32.03", "release_date": ""}))
    assert (found.same, found.stops) == (1, ())


FOLDER = [("libcudnn9-cuda-13", "9.26.0.51-1"), ("libcudnn9-cuda-13", "9.28.0.42-1"), ("cuda-toolkit-13-4", "13.4.2-1")]


def test_a_folder_with_newer_versions_offers_them() -> None:
    found = run("apt", *apt("ubuntu2404", "x86_64", FOLDER))
    offered = [one.row["versions"] for one in found.changes if one.table == "availability"]
    assert offered == [">=9.3.0.75,<=9.23.2.1,!=9.15.0.57 | ==9.26.0.51 | ==9.28.0.42"]
    assert {one.row["version"] for one in found.added} == {"9.26.0.51", "9.28.0.42"}


def test_an_rpm_folder_with_newer_versions_offers_them() -> None:
    found = run(
        "rpm", *rpm("rhel9", "x86_64", [("libnccl", "2.29.3", "1+cuda13.1"), ("libnccl", "2.29.2", "1+cuda13.1")])
    )
    (offered,) = (one.row["versions"] for one in found.changes if one.table == "availability")
    assert offered == ">=2.16.5,<=2.28.3 | ==2.29.2 | ==2.29.3"


def test_a_folder_that_the_facts_do_not_know_waits() -> None:
    found = run("apt", *apt("ubuntu3004", "x86_64", FOLDER))
    assert not [one for one in found.changes if one.table == "availability"]
    assert "the facts have no row for cudnn in ubuntu3004" in {one.why for one in found.waiting}


def test_a_release_beyond_the_bound_of_all_folders_waits() -> None:
    found = run("apt", *apt("ubuntu2404", "x86_64", [("cuda-toolkit-13-9", "13.9.1-1")]))
    assert [one.why for one in found.waiting] == ["its end is a bound"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Package: libcudnn9", "Packages: libcudnn9", "is not the file that the index of its folder lists"),
        ("9.28.0.42", "9.28.9.42", "is not the file that the index of its folder lists"),
    ],
)
def test_an_index_that_is_not_the_listed_one_is_refused(old: str, new: str, why: str) -> None:
    release, body = apt("ubuntu2404", "x86_64", FOLDER)
    with pytest.raises(SourceError, match=why):
        run("apt", release, changed(body, old, new))


def test_the_report_shows_the_old_and_the_new_cell() -> None:
    body = changed(recorded("pci_ids", "pci.ids"), "GH100 [H100 PCIe]", "GH100 [H100 of another name]")
    found = [
        line
        for line in report.lines("pci_ids", run("pci_ids", body), facts())
        if "0x2331" in line or "another name" in line
    ]
    assert found == [
        "pci_ids: waits: gpus.products 0x2331: name: it differs from the facts",
        "  new: H100 of another name",
    ]


def test_the_report_says_whether_a_sum_is_lacking_or_another() -> None:
    row = next(one for one in facts().rows("cuda-installers", "archives") if not {"sha256", "md5"} & set(one))
    given = Given((Found("cuda-installers", "archives", {**row, "sha256": "0" * 64}),))
    (waiting,) = merge("pins", given, facts(), Witnesses(facts())).waiting
    assert (waiting.column, waiting.old, waiting.why) == ("sha256", "", "the facts have none")


def test_a_guest_driver_that_a_bulletin_puts_into_another_branch_is_none() -> None:
    def guests(*products: str) -> list[tuple[str, str, str]]:
        fixed = {"vulnerabilities": [{"product_status": {"fixed": list(products)}}]}
        found = guests_of([Body("https://example.com", "2026-11-23", json.dumps(fixed).encode())])
        return [(one.row["version"], one.row["os"], one.row["vgpu"]) for one in found]

    assert guests("linuxr580_vgpu_19_guest_driver_580_126_09vgpu_software_19_4") == [("580.126.09", "linux", "19.4")]
    assert guests("windowsr418_vgpu_software_guest_driver_418_240vgpu_8_10") == [("418.240", "linux", "8.10")]
    assert guests("linuxr535_vgpu_16_guest_driver_575_274_02vgpu_16_12") == []
    assert guests("linuxvgpu_20_guest_driver_595_91_07vgpu_20_2", "linuxvgpu_guest_driver_595_91_07vgpu_20_3") == []
