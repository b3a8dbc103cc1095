"""GPUs that are to be split by MIG: from which driver on, and which cannot be."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.cli.options import HostQuestion, host_of
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.facts import Rule
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import version

FLOORS = {
    "A100-SXM4-40GB": "450.80.02",
    "A30": "460.73.01",
    "H100 80GB HBM3": "525.85.12",
    "H200": "550.90.07",
    "B200": "570.133.20",
    "B300": "580.82.07",
    "RTX PRO 6000 Blackwell Server Edition": "575.51.03",
}


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


def request(*texts: str) -> Request:
    return Request(requirements=tuple(parse_requirement(text) for text in texts))


def asked(facts: Matrix, gpu: str, driver: str, *, mig: bool = True) -> Verdict:
    system = "ubuntu20.04" if driver.startswith("450.") else "ubuntu22.04"  # has kernels of the driver's time
    host = host_of(facts, HostQuestion(os=system, gpus=(gpu,), mig=mig))
    return check(facts, host, request(f"driver=={driver}"))


@pytest.mark.parametrize(("gpu", "floor"), FLOORS.items())
def test_the_first_driver_that_splits_a_gpu_is_told_to_those_before_it(facts: Matrix, gpu: str, floor: str) -> None:
    assert asked(facts, gpu, floor).verdict == "compatible"
    older = [
        row.version
        for row in facts.releases("driver")
        if "linux" in row.os and row.status == "released" and version(row.version) < version(floor)
    ]
    refused = asked(facts, gpu, older[0])
    assert refused.verdict == "incompatible"
    assert f"with driver {floor} or newer" in refused.conflicts[0].reason


def test_without_mig_the_same_driver_is_compatible(facts: Matrix) -> None:
    assert asked(facts, "A100-SXM4-40GB", "450.51.06", mig=False).verdict == "compatible"
    assert asked(facts, "A100-SXM4-40GB", "450.51.06").verdict == "incompatible"


def test_windows_has_no_mig(facts: Matrix) -> None:
    for mig, verdict in ((True, "incompatible"), (False, "compatible")):
        host = host_of(facts, HostQuestion(os="windows-server2022", gpus=("A100-PCIE-40GB",), mig=mig))
        assert check(facts, host, request("driver==553.62")).verdict == verdict


@pytest.mark.parametrize("gpu", ["GeForce RTX 4090", "L40S", "Tesla T4", "GeForce RTX 5090"])
def test_a_gpu_that_cannot_be_split_is_refused_with_every_driver(facts: Matrix, gpu: str) -> None:
    verdict = asked(facts, gpu, "580.178.04")
    assert verdict.verdict == "incompatible"
    assert verdict.conflicts[0].reason.startswith("MIG splits ")


def test_a_gpu_of_which_no_fact_tells_is_unknown(facts: Matrix) -> None:
    verdict = asked(facts, "H800", "580.178.04")
    assert verdict.verdict == "unknown"
    assert "from which driver on MIG can split H800" in verdict.unknown[0].reason


def test_an_instance_as_nvidia_smi_prints_it_is_judged_without_the_option(facts: Matrix) -> None:
    assert asked(facts, "NVIDIA H200 MIG 1g.18gb", "550.54.15", mig=False).verdict == "incompatible"
    assert asked(facts, "NVIDIA H200 MIG 1g.18gb", "550.90.07", mig=False).verdict == "compatible"


def test_plan_takes_a_driver_that_splits_the_gpu(facts: Matrix) -> None:
    host = host_of(facts, HostQuestion(os="ubuntu22.04", gpus=("H200",), mig=True))
    pick = resolve(facts, host, request("driver==550.*")).pick("driver")
    assert pick is not None
    assert version(pick.version) >= version("550.90.07")


def test_the_option_needs_a_gpu(facts: Matrix) -> None:
    with pytest.raises(UsageError) as caught:
        host_of(facts, HostQuestion(os="ubuntu22.04", mig=True))
    assert caught.value.where == "--mig"


def test_every_rule_about_mig_names_products_of_the_table(facts: Matrix) -> None:
    products = {product.name for product in facts.products}
    rules = [rule for rule in facts.rules("driver") if rule.when.mig]
    assert len(rules) > 10
    assert [name for rule in rules for name in rule.when.gpu if name not in products] == []
    assert msgspec.json.encode(rules, order="deterministic").count(b'"mig":true') == len(rules)


def test_nothing_else_holds_only_for_gpus_that_are_split(facts: Matrix) -> None:
    assert {rule.of.partition("<")[0] for rule in facts.everywhere("rules", Rule) if rule.when.mig} == {"driver"}
