"""Every pair that a table of the facts decides gets that verdict: both sides of each bound, release by release."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import Any

import msgspec
import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.versions import version

SYSTEMS = {"linux": "ubuntu22.04", "windows": "windows11"}


@cache
def facts() -> Matrix:
    return load_matrix()


@cache
def host(system: str = "ubuntu22.04", gpu: str = "", arch: str | None = None) -> Host:
    return describe(facts(), os=system, arch=arch, gpus=(gpu,) if gpu else (), driver=None)


def ask(on: Host, *texts: str) -> Verdict:
    return check(facts(), on, Request(requirements=tuple(parse_requirement(text) for text in texts)))


def table(subject: str, name: str) -> tuple[dict[str, Any], ...]:
    rows: tuple[dict[str, Any], ...] = facts().rows(subject, name, dict)
    return rows


def is_refused(verdict: Verdict, *parts: str) -> bool:
    """Whether a rule puts a conflict between just these: components, or "gpu"; known faults are no rules."""
    return any(
        {item.split(":")[0].split("=")[0] for item in conflict.between} == set(parts)
        for conflict in verdict.conflicts
        if conflict.kind != "known-bad"
    )


@cache
def drivers(system: str) -> tuple[str, ...]:
    """The known driver versions of a system, the oldest first."""
    rows = table("driver", "releases")
    return tuple(
        sorted(
            (row["version"] for row in rows if system in row.get("os", [system])), key=lambda text: version(text).key
        )
    )


def around(system: str, floor: str) -> tuple[list[str], list[str]]:
    """The known driver just below a floor, and the first that meets it; either may be missing."""
    known = drivers(system)
    place = bisect_left([version(text).key for text in known], version(floor).key)
    return list(known[place - 1 : place]) if place else [], list(known[place : place + 1])


@pytest.mark.parametrize(
    "row", [row for row in table("cuda", "releases") if row.get("gcc_max")], ids=lambda row: row["version"]
)
def test_the_newest_host_compiler_passes_and_the_next_is_told(row: dict[str, Any]) -> None:
    newest = int(row["gcc_max"])
    for gcc, is_told in ((newest, False), (newest + 1, True)):
        verdict = ask(msgspec.structs.replace(host(), gcc=f"{gcc}.1.0"), f"cuda=={row['version']}")
        reasons = [conflict.reason for conflict in verdict.conflicts]
        assert any("as host compiler" in text and f"GCC {gcc}" in text for text in reasons) == is_told, (gcc, reasons)


CAPABILITIES = [
    row["compute_capability"]
    for row in table("gpus", "compute_capabilities")
    if any(product.compute_capability == row["compute_capability"] for product in facts().products)
]


LAST_OF_MINORS = list({row["minor"]: row for row in reversed(table("cuda", "releases")) if row.get("cc_max")}.values())
"""One release for each minor version of CUDA: what its compiler builds for does not change within."""


@pytest.mark.parametrize("row", LAST_OF_MINORS, ids=lambda row: row["version"])
def test_cuda_builds_for_what_its_compiler_lists_or_says_that_code_of_the_same_major_runs(row: dict[str, Any]) -> None:
    for capability in CAPABILITIES:
        verdict = ask(host(gpu=f"cc:{capability}"), f"cuda=={row['version']}")
        is_within = version(row["cc_min"]) <= version(capability) <= version(row["cc_max"])
        is_listed = capability in row["cc_list"] if row.get("cc_list") else is_within
        major = capability.partition(".")[0]
        built_for = row.get("cc_list") or [row["cc_min"], row["cc_max"]]
        has_lower = any(one.partition(".")[0] == major and version(one) < version(capability) for one in built_for)
        assert is_refused(verdict, "cuda", "gpu") != (is_listed or has_lower), capability
        if has_lower and not is_listed:
            assert any("of the same major runs there" in text for text in verdict.warnings), capability


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("row", table("nv-codec-headers", "releases"), ids=lambda row: row["version"])
def test_headers_pass_with_the_first_driver_of_their_api_and_not_with_the_one_before(
    row: dict[str, Any], system: str
) -> None:
    below, first = around(system, row[f"driver_{system}"])
    for driver, is_wrong in [*((text, True) for text in below), *((text, False) for text in first)]:
        verdict = ask(host(SYSTEMS[system]), f"nv-codec-headers=={row['version']}", f"driver=={driver}")
        assert is_refused(verdict, "nv-codec-headers", "driver") == is_wrong, driver
        assert not verdict.unknown


def test_ffmpeg_passes_with_the_headers_that_it_was_compiled_with_only() -> None:
    released = {row["version"] for row in table("ffmpeg", "releases")}
    for row in table("ffmpeg", "tried_headers"):
        release = row["tree"] if row["tree"] in released else row["branch"]
        verdict = ask(host(), f"ffmpeg=={release}", f"nv-codec-headers=={row['headers']}")
        assert is_refused(verdict, "ffmpeg", "nv-codec-headers") == (row["result"] != "compiles"), row
        assert not verdict.unknown, row


@pytest.mark.parametrize("row", table("tensorrt", "releases"), ids=lambda row: row["version"])
def test_tensorrt_passes_with_every_cuda_that_it_names_and_not_with_the_next_major(row: dict[str, Any]) -> None:
    if row.get("systems") == ["l4t"] or not row.get("cuda"):
        pytest.skip("the facts name no CUDA of servers for it")
    known = [release["version"] for release in LAST_OF_MINORS if release.get("status", "released") == "released"]
    newest = max(int(text.partition(".")[0]) for text in row["cuda"])
    for cuda in known:
        named = any(version(cuda).has_prefix(version(text).numbers) for text in row["cuda"])
        verdict = ask(host(arch=(row.get("arch") or ["x86_64"])[0]), f"tensorrt=={row['version']}", f"cuda=={cuda}")
        if named:
            assert not is_refused(verdict, "tensorrt", "cuda"), cuda
        if int(cuda.partition(".")[0]) > newest:
            assert verdict.conflicts or verdict.unknown, cuda


@pytest.mark.parametrize(
    "row", [row for row in table("cudnn", "variants") if row.get("basis") == "matrix"],
    ids=lambda row: f"{row['version']}-{row['cuda']}-{row['row']}",
)  # fmt: skip
def test_cudnn_passes_with_every_toolkit_of_its_support_matrix(row: dict[str, Any]) -> None:
    known = {release["version"] for release in table("cuda", "releases")}
    for toolkit in row.get("toolkits", []):
        if toolkit in known:
            verdict = ask(host(), f"cudnn=={row['version']}", f"cuda=={toolkit}")
            assert not is_refused(verdict, "cudnn", "cuda"), toolkit


@pytest.mark.parametrize(
    "row", [row for row in table("triton", "releases") if row.get("driver_min")], ids=lambda row: row["version"]
)
def test_triton_passes_from_the_driver_that_its_notes_name_on_everywhere(row: dict[str, Any]) -> None:
    inside = row.get("cuda", "0").partition(".")[0]
    compatible = table("cuda", "minor_version_compat")
    floors = [one["linux_min"] for one in compatible if one["major"] == inside and "linux_min" in one]
    _, first = around("linux", max([row["driver_min"], *floors], key=lambda text: version(text).key))
    for driver in first:
        for gpu in ("T4", "RTX 2080"):
            verdict = ask(host(gpu=gpu), f"triton=={row['version']}", f"driver=={driver}")
            assert not is_refused(verdict, "triton", "driver"), (gpu, driver, verdict.conflicts)


def test_a_driver_drives_the_architectures_from_their_first_branch_to_their_last() -> None:
    newest = {text.partition(".")[0]: text for text in drivers("linux")}
    bounds = {
        (p.compute_capability, p.driver_first, p.driver_last): p.device
        for p in facts().products
        if p.compute_capability
    }
    for (capability, first, last), device in bounds.items():
        for branch, driver in newest.items():
            refused = is_refused(ask(host(gpu=f"10de:{device}"), f"driver=={driver}"), "driver", "gpu")
            is_early = bool(first) and int(branch) < int(first.partition(".")[0])
            is_late = bool(last) and int(branch) > int(last)
            assert refused or not (is_early or is_late), (capability, driver)
            assert not refused or is_early or is_late or not first, (capability, driver)
