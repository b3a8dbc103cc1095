"""The formats of Python's installers, judged by pip's own reader, packaging and readers of TOML and YAML."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec import UNSET
from packaging.pylock import Pylock
from packaging.requirements import Requirement

from gpustack.detect.describe import describe
from gpustack.errors import UsageError
from gpustack.matrix.index import load_matrix
from gpustack.model.plan import Plan, PythonEnvironment
from gpustack.model.request import Request
from gpustack.plan import document
from gpustack.plan.build import build
from gpustack.render.api import PYTHON_FORMATS, remarks, render
from gpustack.solve.requirements import merge, parse_requirement, split_frameworks
from gpustack.solve.resolve import resolve

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MATRIX = load_matrix()
INDEX = "https://index.example/simple"
CU126 = "https://download.pytorch.org/whl/cu126"


def plan(words: str, gpu: str = "L40S") -> Plan:
    host = describe(MATRIX, os="ubuntu24.04", arch="x86_64", gpus=(gpu,))
    stack, frameworks = split_frameworks(merge(tuple(map(parse_requirement, words.split()))))
    request = Request(requirements=stack, frameworks=frameworks or UNSET)
    return build(host, request, resolve(MATRIX, host, request), MATRIX)


PINNED = plan("torch==2.9.1")
OWN_INDEX = plan("torch==2.9.1+cu126 torchvision==0.24.1+cu126", "GTX 1080")


def test_a_plan_with_its_environment_survives_its_document() -> None:
    for made in (PINNED, OWN_INDEX):
        assert document.parse(document.dump(made).encode(), where="plan.json") == made


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("torch==2.9.1 torchvision==0.24.1", {"torch", "nvidia-cublas-cu12", "nvidia-cudnn-cu12", "triton"}),
        ("torch==2.15.0", {"torch", "cuda-toolkit", "nvidia-cublas", "nvidia-cufile", "nvidia-nvjitlink"}),
    ],
)
def test_every_wheel_of_a_requirements_file_has_checksums(words: str, names: set[str]) -> None:
    lines = render(plan(words, "RTX 4090"), "requirements").replace(" \\\n", "").splitlines()
    entries = [line.split() for line in lines if not line.startswith("#")]
    assert {Requirement(one[0]).name for one in entries} >= names
    assert all(any(part.startswith("--hash=sha256:") for part in one[1:]) for one in entries)


def test_the_build_of_another_index_comes_from_it_in_every_form() -> None:
    assert f"--extra-index-url {CU126}\ntorch==2.9.1+cu126\ntorchvision==0.24.1+cu126" in render(
        OWN_INDEX, "requirements"
    )
    unknown = "# Without checksums: the facts have none of torch==2.9.1+cu126, torchvision==0.24.1+cu126"
    assert unknown in render(OWN_INDEX, "requirements")
    project = tomllib.loads(render(OWN_INDEX, "uv"))
    assert project["project"]["dependencies"] == ["torch==2.9.1+cu126", "torchvision==0.24.1+cu126"]
    assert project["tool"]["uv"]["sources"]["torch"] == {"index": "pytorch-cu126"}
    assert project["tool"]["uv"]["index"] == [{"name": "pytorch-cu126", "url": CU126, "explicit": True}]
    pixi = tomllib.loads(render(OWN_INDEX, "pixi"))
    assert pixi["pypi-dependencies"]["torch"] == {"version": "==2.9.1+cu126", "index": CU126}
    assert pixi["system-requirements"] == {"cuda": "12"}
    conda = yaml.safe_load(render(OWN_INDEX, "conda"))
    assert conda["dependencies"][0] == "python=3.12"
    assert conda["dependencies"][2]["pip"] == [
        f"--extra-index-url {CU126}",
        "torch==2.9.1+cu126",
        "torchvision==0.24.1+cu126",
    ]


def test_a_pylock_is_one_for_packaging() -> None:
    lock = Pylock.from_dict(tomllib.loads(render(PINNED, "pylock")))
    torch = next(one for one in lock.packages if one.name == "torch")
    assert str(torch.version) == "2.9.1"
    assert torch.wheels is not None
    assert all(wheel.hashes["sha256"] and wheel.size for wheel in torch.wheels)
    assert all(wheel.path == f"wheels/{wheel.filename}" and wheel.url is None for wheel in torch.wheels)
    assert any("-d wheels" in text for text in remarks(PINNED, "pylock"))


def test_wheels_of_a_plan_with_addresses_keep_them() -> None:
    """The first plans with environments have the address of each wheel."""
    old = json.loads(document.dump(PINNED))
    for package in old["python"]["packages"]:
        for wheel in package["wheels"]:
            del wheel["size"]
            wheel["url"] = f"https://index.example/files/{wheel['name']}"
    environment = msgspec.convert(old["python"], PythonEnvironment)
    lock = Pylock.from_dict(tomllib.loads(render(msgspec.structs.replace(PINNED, python=environment), "pylock")))
    wheel = (lock.packages[0].wheels or ())[0]
    assert (wheel.url, wheel.path) == (f"https://index.example/files/{wheel.name}", None)


@pytest.mark.parametrize("form", PYTHON_FORMATS)
def test_no_format_names_an_index_that_nobody_set(form: str) -> None:
    text = render(PINNED, form)
    assert "http" not in text
    assert "index-url" not in text


def test_every_format_names_the_index_that_is_given() -> None:
    assert f"\n--index-url {INDEX}\n" in render(PINNED, "requirements", index=INDEX)
    project = tomllib.loads(render(OWN_INDEX, "uv", index=INDEX))
    assert project["tool"]["uv"]["index"][0] == {"name": "package-index", "url": INDEX, "default": True}
    assert project["tool"]["uv"]["sources"]["torch"] == {"index": "pytorch-cu126"}
    assert tomllib.loads(render(OWN_INDEX, "pixi", index=INDEX))["pypi-options"] == {"index-url": INDEX}
    words = yaml.safe_load(render(OWN_INDEX, "conda", index=INDEX))["dependencies"][2]["pip"]
    assert words[:2] == [f"--index-url {INDEX}", f"--extra-index-url {CU126}"]
    lock = Pylock.from_dict(tomllib.loads(render(PINNED, "pylock", index=INDEX)))
    assert {one.index for one in lock.packages} == {INDEX}


def test_a_pylock_without_files_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the facts have none of torch==2.9.1\+cu126"):
        render(OWN_INDEX, "pylock")


@pytest.mark.parametrize("form", PYTHON_FORMATS)
def test_a_plan_without_frameworks_has_no_environment(form: str) -> None:
    with pytest.raises(UsageError, match="no Python environment"):
        render(plan("cuda"), form)


def test_what_a_form_lacks_is_said() -> None:
    assert "pip install torch==2.9.1" in remarks(PINNED, "pylock")[0]


def test_a_free_version_takes_the_index_that_has_code_for_the_gpu() -> None:
    made = plan("torch", "GTX 1080")
    assert made.stack["torch"].version.endswith("+cu126")
    assert "wrong here" in made.stack["torch"].reason
    assert any(CU126 in " ".join(command) for step in made.steps for command in step.commands)


def test_the_driver_of_a_plan_is_the_one_that_the_wheels_require() -> None:
    made = plan("vllm")
    assert "580 or newer" in made.stack["driver"].reason
    assert made.stack["vllm"].method == "pip"
    assert Path(made.steps[-1].commands[0][0]).name == "gpustack"


def test_the_environment_is_verified_by_its_own_interpreter() -> None:
    last = plan("torch").steps[-1]
    home = "/opt/gpustack/venv-torch/bin/python3"
    assert last.commands == (("gpustack", "verify", "driver", "torch", "--python", home),)
