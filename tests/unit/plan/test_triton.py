"""Triton as a container: the command of its era, the engine that is there, a model that answers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import contents, host, pick, plan, refusal

from gpustack.model.host import Installed
from gpustack.model.plan import Plan

STORE = "/srv/triton/models"
FIRST = "/opt/inference_server/bin/inference_server"


def run_of(made: Plan) -> tuple[str, ...]:
    return next(argv for step in made.steps for argv in step.commands if argv[1:2] == ("run",))


def triton(release: str, *engines: str) -> Plan:
    there = {name: Installed(version="1", method="distro") for name in engines}
    return plan(replace(host(), installed=there), pick("triton", release, "container"))


@pytest.mark.parametrize(
    ("release", "image", "server", "ready"),
    [
        ("18.04", "inferenceserver:18.04", (FIRST, "--model_base_path=/models"), "api/status"),
        ("18.07", "inferenceserver:18.07-py2", (FIRST, "--model-store=/models"), "api/status"),
        ("18.08.1", "inferenceserver:18.08.1-py2", (FIRST, "--model-store=/models"), "api/health/ready"),
        ("18.09", "tensorrtserver:18.09-py3", ("trtserver", "--model-store=/models"), "api/health/ready"),
        ("19.07", "tensorrtserver:19.07-py3", ("trtserver", "--model-store=/models"), "api/health/ready"),
        ("20.03.1", "tritonserver:20.03.1-py3", ("tritonserver", "--model-repository=/models"), "api/health/ready"),
        ("25.09", "tritonserver:25.09-py3", ("tritonserver", "--model-repository=/models"), "v2/health/ready"),
    ],
)
def test_the_command_is_that_of_its_era(release: str, image: str, server: tuple[str, ...], ready: str) -> None:
    made = triton(release, "docker")
    argv = run_of(made)
    assert argv[-2:] == server
    assert argv[-3] == f"nvcr.io/nvidia/{image}"
    assert {"--shm-size=1g", "--ulimit=memlock=-1", "--ulimit=stack=67108864", "--gpus=all"} <= set(argv)
    assert [word for word in argv if word.startswith("--publish")] == [
        f"--publish={port}:{port}" for port in (8000, 8001, 8002)
    ]
    assert made.steps[-2].commands[0][-1] == f"http://localhost:8000/{ready}"


def test_the_model_repository_has_a_model_that_answers() -> None:
    written = contents(triton("25.09", "docker"))
    assert 'backend: "python"' in written[f"{STORE}/identity/config.pbtxt"]
    compile(written[f"{STORE}/identity/1/model.py"], "model.py", "exec")


def test_an_image_without_the_python_backend_gets_a_pattern_beside_its_repository() -> None:
    written = contents(triton("19.07", "docker"))
    assert list(written) == ["/srv/triton/pattern/engine/config.pbtxt"]
    assert 'platform: "tensorrt_plan"' in written["/srv/triton/pattern/engine/config.pbtxt"]


def test_podman_gets_gpus_by_cdi() -> None:
    argv = run_of(triton("25.09", "podman"))
    assert argv[0] == "podman"
    assert "--device=nvidia.com/gpu=all" in argv
    assert "--gpus=all" not in argv


def test_a_host_without_a_gpu_serves_without_one() -> None:
    machine = replace(host(), gpus=(), installed={"docker": Installed(version="1", method="distro")})
    assert not [word for word in run_of(plan(machine, pick("triton", "25.09", "container"))) if "gpu" in word]


def test_jetson_never_gets_the_images_for_servers() -> None:
    board = host("l4t36", arch="aarch64", gpus=("Jetson AGX Orin",))
    assert "Jetson has builds of its own" in refusal(board, "triton", method="container").message


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("0.5.0", "its oldest is 18.04; NVIDIA names its image inferenceserver:18.08, but not its whole tag"),
        ("18.08", "the nearest are 18.07 and 18.08.1; NVIDIA names its image inferenceserver:18.08, but not its whole"),
        ("18.10", "the nearest are 18.09 and 18.11; NVIDIA names its image nvcr.io/nvidia/tensorrtserver:18.10, but"),
    ],
)
def test_a_release_whose_image_is_not_known_whole_says_so(release: str, words: str) -> None:
    error = refusal(host("ubuntu16.04", gpus=("V100-SXM2-16GB",)), f"triton=={release}", method="container")
    assert words in str(error)


def test_images_of_cuda_9_do_not_support_turing() -> None:
    error = refusal(host("ubuntu18.04", gpus=("Tesla T4",)), "triton==18.07", method="container")
    assert "requires a GPU of compute capability older than 7.5" in str(error)
