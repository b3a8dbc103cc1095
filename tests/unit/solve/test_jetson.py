"""Jetsons: what runs on which JetPack, asked by Jetson Linux, by JetPack, or by the module alone."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError, UnsupportedError, UsageError
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Resolution, Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve

FACTS = load_matrix()
NANO, XAVIER, ORIN, THOR = "Jetson Nano", "Jetson AGX Xavier", "Jetson AGX Orin", "Jetson AGX Thor"


def board(os: str, gpu: str = "") -> Host:
    return describe(FACTS, os=os, arch=None, gpus=(gpu,) if gpu else ())


def wanted(texts: str) -> Request:
    return Request(requirements=merge(tuple(parse_requirement(text) for text in texts.split())))


def ask(texts: str, os: str, gpu: str = "") -> Verdict:
    return check(FACTS, board(os, gpu), wanted(texts))


def plan(texts: str, os: str, gpu: str = "") -> Resolution:
    return resolve(FACTS, board(os, gpu), wanted(texts))


@pytest.mark.parametrize(
    ("texts", "os", "gpu"),
    [
        ("cuda==10.0", "jetpack4.3", NANO),
        ("cuda==10.2", "l4t32", NANO),
        ("cudnn==8.2.1 tensorrt==8.2.1", "jetpack4.6.1", NANO),
        ("cuda==11.4", "l4t35", XAVIER),
        ("cuda==12.2", "jetpack5.1.2", XAVIER),  # by the upgrade package
        ("cudnn==8.6.0.166 tensorrt==8.5.2", "jetpack5.1", ORIN),
        ("tensorrt==8.6.2", "jetpack6.0", ORIN),
        ("cuda==12.6 cudnn==9.3.0 tensorrt==10.3.0", "l4t36", ORIN),
        ("cuda==12.6", "jetpack6.2", ORIN),
        ("cuda==13.0 cudnn==9.12.0 tensorrt==10.13.3", "jetpack7.0", THOR),
        ("cuda==13.2 tensorrt==10.16.2", "jetpack7.2", ORIN),
        ("cuda==13.4", "jetpack7.2", THOR),
        ("nccl==2.28.3", "l4t38", THOR),
        ("container-toolkit", "l4t36", ORIN),
    ],
)
def test_what_a_jetpack_has_or_can_be_upgraded_to_is_compatible(texts: str, os: str, gpu: str) -> None:
    assert ask(texts, os, gpu).verdict == "compatible"


@pytest.mark.parametrize(
    ("texts", "os", "gpu", "between"),
    [
        ("cuda==10.0", "jetpack4.6", NANO, "os: Jetson Linux 32.6.1"),
        ("cuda==11.4.1", "l4t32", NANO, "os: Jetson Linux 32.7.6"),
        ("cuda==13.5.0 cudnn==9.28.0.42", "l4t35", "", "os: Jetson Linux 35.6.5"),
        ("cuda==12.6", "jetpack5", ORIN, "os: Jetson Linux 35.6.4"),
        ("cuda==12.3", "l4t36", ORIN, "os: Jetson Linux 36.5.0"),
        ("cuda==13.0.0", "l4t36", ORIN, "os: Jetson Linux 36.5.0"),
        ("cuda==13.2", "jetpack7.1", THOR, "os: Jetson Linux 38.4.0"),
        ("cudnn==9.28.0.42", "l4t36", ORIN, "os: Jetson Linux 36.5.0"),
        ("tensorrt==8.6.2", "jetpack6.2", ORIN, "os: Jetson Linux 36.4.3"),
        ("tensorrt==10.9.0", "l4t36", ORIN, "os: Jetson Linux 36.5.0"),
        ("tensorrt==11.3.0", "l4t39", ORIN, "os: Jetson Linux 39.2.0"),
        ("nv-codec-headers==12.1.14.0", "jetpack6.2", ORIN, "os: Jetson Linux 36.4.3"),
        ("nccl==2.27.7", "l4t36", ORIN, "os: Jetson Linux 36.5.0"),
    ],
)
def test_what_no_build_of_a_jetpack_has_is_incompatible_and_says_which_release(
    texts: str, os: str, gpu: str, between: str
) -> None:
    verdict = ask(texts, os, gpu)
    assert verdict.verdict == "incompatible"
    assert between in {side for conflict in verdict.conflicts for side in conflict.between}


@pytest.mark.parametrize(
    ("texts", "os", "gpu", "said"),
    [
        ("cuda==13.5.0", "l4t39", ORIN, "it is unknown whether it runs on Jetson Linux 39.2.0"),
        ("tensorrt==11.4.1", "l4t39", ORIN, "it is unknown whether it runs on"),  # it names JetPack 7.2.2
        ("triton", "l4t36", ORIN, "Jetson has builds of its own"),
        ("driver==580.95.05", "l4t36", ORIN, "the driver is part of Jetson Linux"),
        ("driver==580.95.05", "ubuntu24.04", ORIN, "the driver is part of Jetson Linux"),
    ],
)
def test_what_nobody_states_is_unknown_and_never_compatible(texts: str, os: str, gpu: str, said: str) -> None:
    verdict = ask(texts, os, gpu)
    assert verdict.verdict == "unknown"
    assert said in " ".join(one.reason for one in verdict.unknown)


def test_a_jetson_whose_jetson_linux_is_not_named_is_unknown_with_the_option_that_names_it() -> None:
    (unknown,) = ask("cuda==12.6.1", "ubuntu22.04", ORIN).unknown
    assert (unknown.needs, unknown.option) == ("l4t", "--os")


@pytest.mark.parametrize(
    ("os", "l4t", "row"),
    [
        ("jetpack6.2", "36.4.3", "l4t36"),
        ("JetPack6.2.1", "36.4.4", "l4t36"),
        ("jetpack6", "36.5.0", "l4t36"),
        ("jetpack4.6.1", "32.7.1", "l4t32"),
        ("l4t36", "36.5.0", "l4t36"),
        ("l4t36.4.3", "36.4.3", "l4t36"),
        ("l4t36.4.9", "36.4.9", "l4t36"),
    ],
)
def test_a_jetpack_is_its_jetson_linux(os: str, l4t: str, row: str) -> None:
    host = board(os)
    assert (host.l4t, host.os.system, host.environment, host.arch) == (l4t, row, "jetson", "aarch64")


def test_no_other_host_has_a_jetson_linux() -> None:
    assert board("ubuntu24.04", "GB10").l4t is UNSET


@pytest.mark.parametrize("os", ["jetpack", "jetpack3", "jetpack6.9", "jetpackx"])
def test_a_jetpack_that_no_fact_knows_is_refused_with_those_that_are(os: str) -> None:
    with pytest.raises(UnsupportedError, match="JetPack") as caught:
        board(os)
    assert "6.2.1" in caught.value.hint


def test_the_plan_takes_the_cuda_of_the_jetpack_before_one_that_needs_the_upgrade_package() -> None:
    picks = plan("cuda", "jetpack6.2", ORIN)
    assert [pick.version for pick in picks.picks] == ["12.6.3"]
    newer = plan("cuda==12.9.*", "jetpack6.2", ORIN)
    assert "cuda-compat-12-8 or -12-9" in " ".join(newer.warnings)


@pytest.mark.parametrize(
    ("texts", "os", "gpu", "hint"),
    [
        ("tensorrt", "jetpack6.2", ORIN, "TensorRT 10.3.0.30 of its own: apt-get install nvidia-jetpack"),
        ("tensorrt", "jetpack7.2", THOR, "TensorRT 10.16.2.10 of its own: apt-get install nvidia-jetpack"),
        ("cuda", "jetpack4.6", NANO, "CUDA (nvcc 10.2.300), cuDNN 8.2.1.32 and TensorRT 8.0.1 of its own"),
        ("cuda", "ubuntu22.04", ORIN, "--os jetpack6.2"),
        ("ffmpeg", "jetpack6.2", ORIN, "JetPack 6.2 has CUDA"),
        ("cuda", "ubuntu24.04", THOR, "--os jetpack6.2"),
    ],
)
def test_nothing_of_a_servers_is_planned_on_a_jetson(texts: str, os: str, gpu: str, hint: str) -> None:
    with pytest.raises(GpustackError) as caught:
        plan(texts, os, gpu)
    assert hint in caught.value.hint


def test_every_version_that_a_jetpack_brings_runs_on_it() -> None:
    """The table and the rules say the same: each row's libraries are compatible with its Jetson Linux, or not known."""
    for row in FACTS.jetpacks:
        for release in (row.l4t, *row.also):
            for name, version in (("cuda", row.cuda), ("cudnn", row.cudnn), ("tensorrt", row.tensorrt)):
                line = ".".join(version.split(".")[: 2 if name == "cuda" else 3])
                verdict = ask(f"{name}=={line}", f"l4t{release}")
                assert not verdict.conflicts, (row.jetpack, name, verdict.conflicts)
                assert verdict.verdict == "compatible" or row.jetpack < "4.4", (row.jetpack, name, verdict.unknown)


def test_a_release_that_only_jetpack_has_is_unknown_on_a_server() -> None:
    server = describe(FACTS, os="ubuntu20.04", arch="aarch64")
    verdict = check(FACTS, server, wanted("cudnn==8.6.0.166"))
    assert verdict.verdict == "unknown"
    assert "cuDNN 8.6.0.166 is known for Jetson only" in verdict.unknown[0].reason


@pytest.mark.parametrize(
    ("os", "gpu", "newest"),
    [
        ("jetpack5.1.2", NANO, "jetpack4.6.6"),
        ("jetpack6.2", XAVIER, "jetpack5.1.6"),
        ("jetpack7.0", ORIN, "jetpack7.2"),
        ("l4t36", THOR, "jetpack7.2"),
        ("jetpack4.6", ORIN, "jetpack7.2"),
    ],
)
def test_a_module_that_a_jetpack_is_not_for_is_a_wrong_question(os: str, gpu: str, newest: str) -> None:
    with pytest.raises(UsageError, match="is no module of JetPack") as caught:
        board(os, gpu)
    assert caught.value.hint == f"the newest for it: --os {newest}"


@pytest.mark.parametrize("gpu", ["", ORIN])
@pytest.mark.parametrize("name", ["torch", "tensorflow", "vllm"])
def test_no_plan_puts_the_wheels_for_servers_on_a_jetson(name: str, gpu: str) -> None:
    request = Request(requirements=(), frameworks=(parse_requirement(name),))
    with pytest.raises(GpustackError, match="no compatible build"):
        resolve(FACTS, board("jetpack6.2", gpu), request)


def test_a_wheel_for_the_cuda_of_another_jetpack_is_refused() -> None:
    request = Request(requirements=(), frameworks=(parse_requirement("torch==2.14.1"),))
    verdict = check(FACTS, board("jetpack6.2", ORIN), request)
    assert [one.between for one in verdict.conflicts] == [("torch==2.14.1", "os: Jetson Linux 36.4.3")]
    assert "CUDA 13.0 is that of JetPack 7" in verdict.conflicts[0].reason


def test_thor_takes_the_wheels_for_servers() -> None:
    request = Request(requirements=(), frameworks=(parse_requirement("torch"),))
    picks = resolve(FACTS, board("jetpack7.0", THOR), request).frameworks
    assert picks
    assert picks[0].build.code == "cuda"
