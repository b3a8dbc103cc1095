"""Names of systems, cloud shapes, MIG instances and vGPUs, as people and nvidia-smi write them."""

from __future__ import annotations

import pytest

from gpustack.detect.describe import describe
from gpustack.detect.machines import Machine
from gpustack.detect.products import Products
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def host(name: str, matrix: Matrix, arch: str | None = None) -> Host:
    return describe(matrix, os="ubuntu24.04", arch=arch, gpus=(name,))


@pytest.mark.parametrize(
    ("name", "count", "capability", "arch"),
    [
        ("DGX H100", 8, "9.0", "x86_64"), ("NVIDIA DGX A100", 8, "8.0", "x86_64"), ("dgx-2", 16, "7.0", "x86_64"),
        ("HGX B200", 8, "10.0", "x86_64"), ("HGX H200", 8, "9.0", "x86_64"), ("DGX B300", 8, "10.3", "x86_64"),
        ("p5.48xlarge", 8, "9.0", "x86_64"), ("p5en.48xlarge", 8, "9.0", "x86_64"), ("g5g.xlarge", 1, "7.5", "aarch64"),
        ("g7e.48xlarge", 8, "12.0", "x86_64"), ("Standard_ND96isr_H100_v5", 8, "9.0", "x86_64"),
        ("ND96isr_H100_v5", 8, "9.0", "x86_64"), ("standard_nc4as_t4_v3", 1, "7.5", "x86_64"),
        ("Standard_ND128isr_NDR_GB200_v6", 4, "10.0", "aarch64"), ("a3-highgpu-8g", 8, "9.0", "x86_64"),
        ("a4x-highgpu-4g", 4, "10.0", "aarch64"), ("g2-standard-24", 2, "8.9", "x86_64"),
        ("BM.GPU.H100.8", 8, "9.0", "x86_64"), ("bm.gpu.gb300.4", 4, "10.3", "aarch64"),
    ],
)  # fmt: skip
def test_a_machine_brings_its_gpus_and_its_architecture(
    name: str, count: int, capability: str, arch: str, matrix: Matrix
) -> None:
    found = host(name, matrix)
    assert (len(found.gpus), {gpu.compute_capability for gpu in found.gpus}) == (count, {capability})
    assert found.arch == arch


def test_a_machine_of_another_architecture_is_refused_with_the_right_one(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match=r"g5g\.xlarge is a machine of architecture aarch64, not x86_64") as caught:
        host("g5g.xlarge", matrix, arch="x86_64")
    assert "aarch64" in caught.value.hint


def test_machines_of_two_architectures_make_no_host(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="different architectures"):
        describe(matrix, os="ubuntu24.04", arch=None, gpus=("p5.48xlarge", "a4x-highgpu-4g"))


def test_what_all_gpus_of_a_machine_share_is_known_and_the_rest_is_not(matrix: Matrix) -> None:
    gpu = host("DGX A100", matrix).gpus[0]  # sold with A100 of 40 and of 80 GB
    assert (gpu.called, gpu.fabric, gpu.memory_mib) == ("DGX A100", "nvswitch", None)


@pytest.mark.parametrize(
    ("name", "called", "capability"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100-SXM4-40GB MIG 1g.5gb", "8.0"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100 80GB HBM3 MIG 1g.10gb", "9.0"),
        ("NVIDIA H200 MIG 1c.3g.71gb", "H200 MIG 1c.3g.71gb", "9.0"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb+me",
         "RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb+me", "12.0"),
        ("GRID T4-16Q", "Tesla T4 vGPU T4-16Q", "7.5"), ("NVIDIA A10-24Q", "A10 vGPU A10-24Q", "8.6"),
        ("NVIDIA H100XM-80C", "H100 80GB HBM3 vGPU H100XM-80C", "9.0"),
        ("GRID A100D-4-40C", "A100 80GB PCIe vGPU A100D-4-40C", "8.0"),
        ("GRID V100D-32Q", "Tesla V100-PCIE-32GB vGPU V100D-32Q", "7.0"),
        ("NVIDIA RTX6000-Ada-48Q", "RTX 6000 Ada Generation vGPU RTX6000-Ada-48Q", "8.9"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-4-96Q",
         "RTX PRO 6000 Blackwell Server Edition vGPU RTX Pro 6000 Blackwell DC-4-96Q", "12.0"),
    ],
)  # fmt: skip
def test_parts_of_gpus_as_nvidia_smi_prints_them(name: str, called: str, capability: str, matrix: Matrix) -> None:
    gpu = host(name, matrix).gpus[0]
    assert (gpu.called, gpu.compute_capability, gpu.memory_mib) == (called, capability, None)


@pytest.mark.parametrize("name", ["T4 MIG 1g.5gb", "A100-SXM4-40GB MIG 8g.40gb", "A30 MIG 7g.24gb"])
def test_an_instance_that_the_gpu_does_not_have_is_refused(name: str, matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="has no MIG instance"):
        host(name, matrix)


def answer(matrix: Matrix, found: Host, *asked: str) -> tuple[bool, str]:
    verdict = check(matrix, found, Request(requirements=tuple(parse_requirement(text) for text in asked)))
    return verdict.compatible, f"{verdict.conflicts} {verdict.unknown}"


def test_no_driver_of_servers_is_promised_to_a_vgpu(matrix: Matrix) -> None:
    for name in ("GRID T4-16Q", "Standard_NV36ads_A10_v5", "g6f.xlarge"):
        found = host(name, matrix)
        assert found.environment == "vm"
        compatible, why = answer(matrix, found, "driver==590.48.01")
        assert not compatible
        assert "vGPU" in why
        assert answer(matrix, found, "driver==580.95.05")[0], "the guest driver of vGPU 19.2"
    assert answer(matrix, host("GRID T4-16Q", matrix), "cudnn==9.10.2.21", "cuda==12.9.1")[0]


@pytest.mark.parametrize(
    "name",
    ["GeForce 8800 GTX", "GTX 280", "Tesla C1060", "Quadro FX 5800", "GeForce 9600 GT", "10de:05e2", "GeForce 210"],
)
def test_gpus_before_fermi_end_with_driver_340(name: str, matrix: Matrix) -> None:
    compatible, why = answer(matrix, host(name, matrix), "driver==390.157")
    assert not compatible
    assert "is 340" in why


def test_vr200_is_a_rubin(matrix: Matrix) -> None:
    assert host("VR200", matrix).gpus[0].compute_capability == "10.7"


def test_every_machine_names_known_devices(matrix: Matrix) -> None:
    products = Products(matrix)
    rows = [row for table in ("machines", "instances") for row in matrix.rows("gpu-names", table, Machine)]
    assert len(rows) > 150
    unknown = [f"{row.name}: {one}" for row in rows for one in row.devices if products.find(one[2:], None) is None]
    assert not unknown
