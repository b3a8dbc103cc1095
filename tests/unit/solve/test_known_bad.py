"""Releases that go wrong on a GPU: refused where nothing runs, passed over where another fits, told with what helps."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.errors import NoSolutionError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Gpu, Host, Installed, OperatingSystem
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.pairs import Pair
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import is_within, version_range

ADA = Gpu(name="RTX 6000 Ada Generation", compute_capability="8.9", kind="professional", open_module="possible")
B200 = Gpu(name="B200", compute_capability="10.0", kind="datacenter", open_module="required")
GH200 = Gpu(name="GH200 480GB", compute_capability="9.0", kind="datacenter", open_module="required")
ROCKY = OperatingSystem(id="rocky", version_id="9.6", family="dnf", repo="rhel9", base="rhel9", system="rocky9")
UBUNTU = OperatingSystem(id="ubuntu", version_id="24.04", family="apt", repo="ubuntu2404", system="ubuntu24.04")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def host(system: OperatingSystem, gpu: Gpu, arch: str = "x86_64") -> Host:
    return Host(os=system, arch=arch, environment="bare-metal", gpus=(gpu,), described=True)


def asked(text: str) -> Request:
    return Request(requirements=(parse_requirement(text),))


def test_a_plan_passes_over_a_release_that_breaks(matrix: Matrix) -> None:
    found = resolve(matrix, host(ROCKY, ADA), asked("driver>=570,<580"))
    pick = found.pick("driver")
    assert pick is not None
    assert not is_within(pick.version, ">=570.158,<576")
    assert any("known to go wrong" in reason.text for reason in pick.reasons)
    elsewhere = resolve(matrix, host(UBUNTU, ADA), asked("driver>=570,<580")).pick("driver")
    assert elsewhere is not None
    assert is_within(elsewhere.version, ">=570.158")


def test_where_no_other_fits_the_plan_says_what_helps(matrix: Matrix) -> None:
    found = resolve(matrix, host(ROCKY, ADA), asked("driver==575.57.08"))
    assert any("options nvidia_uvm uvm_disable_hmm=1" in text for text in found.warnings)


def test_check_warns_and_refuses_only_what_cannot_run(matrix: Matrix) -> None:
    verdict = check(matrix, host(ROCKY, ADA), asked("driver==575.57.08"))
    assert verdict.compatible
    assert any("uvm_disable_hmm=1" in text for text in verdict.warnings)
    refused = check(matrix, host(UBUNTU, GH200, "aarch64"), asked("driver==565.57.01"))
    assert [one.kind for one in refused.conflicts] == ["known-bad"]
    assert "issues/774" in refused.conflicts[0].sources[0]
    assert not check(matrix, host(UBUNTU, GH200, "aarch64"), asked("driver==560.35.03")).conflicts


def test_a_plan_refuses_what_cannot_run_and_says_what_can(matrix: Matrix) -> None:
    with pytest.raises(NoSolutionError) as raised:
        resolve(matrix, host(UBUNTU, GH200, "aarch64"), asked("driver==565.57.01"))
    told = str(raised.value)
    assert "driver finds no GH200" in told
    assert "issues/774" in told
    assert "try driver==" in str(raised.value.hint)
    found = resolve(matrix, host(UBUNTU, GH200, "aarch64"), asked("driver>=560,<=565.57.01")).pick("driver")
    assert found is not None
    assert found.version.startswith("560.")


def test_an_installed_release_that_fails_is_told_and_left_alone(matrix: Matrix) -> None:
    installed = {"driver": Installed(version="565.57.01")}
    here = msgspec.structs.replace(host(UBUNTU, GH200, "aarch64"), installed=installed, described=False)
    assert any("driver finds no GH200" in text for text in resolve(matrix, here, asked("cuda")).warnings)
    assert [one.kind for one in check(matrix, here, asked("cuda")).conflicts if one.kind == "known-bad"]


def test_the_open_modules_that_fail_leave_the_others(matrix: Matrix) -> None:
    turing = Gpu(name="GeForce RTX 2060", compute_capability="7.5", kind="consumer", open_module="possible")
    request = msgspec.structs.replace(asked("driver==515.43.04"), methods={"driver": "runfile"})
    assert resolve(matrix, host(UBUNTU, turing), request).pick("driver")
    wanted = msgspec.structs.replace(request, kernel_module="open")
    with pytest.raises(NoSolutionError) as raised:
        resolve(matrix, host(UBUNTU, turing), wanted)
    assert "leave --kernel-module out: driver 515.43.04 is available then" in str(raised.value.hint)


def test_a_release_that_breaks_without_a_setting_that_helps_has_no_verdict(matrix: Matrix) -> None:
    verdict = check(matrix, host(UBUNTU, B200), asked("driver==570.124.06"))
    assert verdict.verdict == "unknown"
    (reason,) = (one.reason for one in verdict.unknown)
    assert "requires 570.133.20 or later" in reason
    assert not any("requires 570.133.20" in text for text in verdict.warnings)
    assert check(matrix, host(UBUNTU, B200), asked("driver==570.133.20")).compatible


def test_the_other_flavour_is_not_warned_of(matrix: Matrix) -> None:
    request = Request(requirements=(parse_requirement("driver==575.57.08"),), kernel_module="proprietary")
    assert not any("HMM" in text for text in check(matrix, host(ROCKY, ADA), request).warnings)


def test_every_pair_binds_a_release_and_says_what_helps(matrix: Matrix) -> None:
    releases = [row.version for row in matrix.releases("driver")]
    names = {row["name"] for row in matrix.rows("gpus", "products", dict)}
    pairs = matrix.rows("known-bad", "pairs", Pair)
    assert len(pairs) >= 60
    for row in pairs:
        assert version_range(row.driver).alternatives
        assert any(is_within(text, row.driver) for text in releases), row.id
        assert {*row.gpus} <= names, row.id
        assert row.fix or row.option, row.id
        assert row.gpus or row.compute_capability, row.id
        assert all(address.startswith("https://") for address in matrix.addresses(row.src)), row.id
