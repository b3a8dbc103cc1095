"""The Dockerfile: hadolint judges it, and what its instructions run is what the plan says."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tests.unit.render.cases import GOLDEN, PLANS, compare, plan_for, plan_of, plan_on, texts, tool

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.plan import BaseImage, Plan
from gpustack.model.steps import FileWrite, Step
from gpustack.render.dockerfile import left_out_of, render, render_stages
from gpustack.render.image import base_image
from gpustack.render.settings import Settings

NEVER = re.compile(
    r"nvidia-open|cuda-drivers|nvidia-driver|linux-headers|kernel-devel|systemctl|modprobe|reboot|verify"
)


@pytest.mark.parametrize("os", PLANS)
def test_dockerfile_is_the_golden_one(os: str, update_golden: bool) -> None:
    compare(GOLDEN / os / "stack.dockerfile", plan_on(os), render(plan_on(os)), update=update_golden)


@pytest.mark.parametrize("os", PLANS)
def test_hadolint_finds_nothing(os: str, tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text(render(plan_on(os)), encoding="utf-8")
    judged = subprocess.run([tool("hadolint"), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout) == (0, "")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions as a builder reads them: lines joined at backslashes, comment lines gone even in between."""
    assert "\r" not in text
    whole, found = "", []
    for line in text.split("\n"):
        if line.lstrip().startswith("#") or (not line.strip() and not whole):
            continue
        whole += line.removesuffix("\\")
        if not line.endswith("\\"):
            name, _, rest = whole.partition(" ")
            found.append((name, rest))
            whole = ""
    assert not whole
    return found


@pytest.mark.parametrize("os", PLANS)
def test_no_driver_no_service_and_clean_layers(os: str) -> None:
    steps = instructions(render(plan_on(os)))
    for name, rest in steps:
        assert name in {"FROM", "RUN", "ENV", "LABEL", "COPY"}
        assert name == "LABEL" or not NEVER.search(rest), rest
        if name == "RUN" and "apt-get install" in rest:
            assert rest.startswith("apt-get update")
            assert re.search(r"&& rm -rf /var/lib/apt/lists/\*( /var/cache/gpustack)?$", rest)
        if name == "RUN" and "curl" in rest:
            assert rest.endswith("/var/cache/gpustack")
            assert re.search("sha256sum|--list-keys|gpgv", rest)
    capabilities = [rest for name, rest in steps if name == "ENV" and "CAPABILITIES" in rest]
    video = ",video" if "ffmpeg" in PLANS[os] else ""
    assert capabilities == [f"NVIDIA_DRIVER_CAPABILITIES=compute,utility{video}"]


def test_sources_are_built_in_a_stage_of_their_own() -> None:
    steps = instructions(render(plan_on("ubuntu22.04")))
    assert [rest for name, rest in steps if name == "FROM"] == [
        "docker.io/library/ubuntu:22.04 AS runtime",
        "runtime AS build",
        "runtime",
    ]
    copied = [rest.split(" ")[-1] for name, rest in steps if name == "COPY"]
    assert copied[:2] == ["/usr/local/include/ffnvcodec", "/usr/local/lib/pkgconfig/ffnvcodec.pc"]
    assert copied[2].startswith("/usr/local/ffmpeg-")
    last = [rest for name, rest in steps[[name for name, _ in steps].index("COPY") :] if name == "RUN"]
    assert not any("build-essential" in rest for rest in last)


@pytest.mark.parametrize("os", ["ubuntu24.04", "rhel9", "sles15.6"])
def test_the_runtime_stage_has_libraries_and_nothing_to_build_with(os: str, tmp_path: Path) -> None:
    text = render(plan_for("cuda cudnn", os, stage="runtime"))
    whole = render(plan_for("cuda cudnn", os))
    assert "cuda-libraries-" in text
    assert "cuda-toolkit-" in whole
    assert not re.search(r"cuda-toolkit-\d|-dev(el)?\b|samples|ENV PATH", text)
    path = tmp_path / "Dockerfile"
    path.write_text(text, encoding="utf-8")
    judged = subprocess.run([tool("hadolint"), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout) == (0, "")


DIGEST = "sha256:" + "0123456789abcdef" * 4


def test_an_image_of_ones_own_is_pinned_labelled_and_refused_for_another_system(tmp_path: Path) -> None:
    own = Settings(image=f"nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04@{DIGEST}")
    text = render(plan_on("ubuntu24.04"), own)
    steps = instructions(text)
    assert steps[0] == ("FROM", own.image)
    labels = dict(re.findall(r'([\w.]+)="([^"]*)"', steps[-1][1]))
    assert labels["org.opencontainers.image.base.name"] == "nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04"
    assert labels["org.opencontainers.image.base.digest"] == DIGEST
    for ending, code in (("ID=ubuntu\nVERSION_ID=24.04", 0), ("ID=ubuntu\nVERSION_ID=22.04", 4), ("ID=debian", 4)):
        (tmp_path / "os-release").write_text(f"{ending}\n")
        guard = steps[1][1].replace("/etc/os-release", str(tmp_path / "os-release"))
        done = subprocess.run(["sh", "-c", guard], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert ("not of the plan's system" in done.stderr) is (code == 4)
    path = tmp_path / "Dockerfile"
    path.write_text(text, encoding="utf-8")
    judged = subprocess.run([tool("hadolint"), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout) == (0, "")


@pytest.mark.parametrize("os", ["rhel9", "sles15.6"])
def test_a_minor_release_of_the_image_is_the_same_system(os: str, tmp_path: Path) -> None:
    guard = instructions(render(plan_on(os), Settings(image="registry.example/own:1")))[1][1]
    system = {"rhel9": "ID=rhel\nVERSION_ID=9.7\n", "sles15.6": "ID=sles\nVERSION_ID=15.6\n"}[os]
    (tmp_path / "os-release").write_text(system)
    subprocess.run(["sh", "-c", guard.replace("/etc/os-release", str(tmp_path / "os-release"))], check=True)


@pytest.mark.parametrize(
    "name", ["a b", "ubuntu:24.04\nRUN evil", "-x", "ubuntu@sha256:1", f"ubuntu@{DIGEST}x", "$(id)"]
)
def test_what_is_no_image_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        render(plan_on("ubuntu24.04"), Settings(image=name))
    assert caught.value.where == "--base-image"


def test_two_stages_are_two_images_of_one_stack(tmp_path: Path) -> None:
    build, runtime = plan_on("ubuntu22.04"), plan_for(PLANS["ubuntu22.04"], "ubuntu22.04", stage="runtime")
    text = render_stages(build, runtime)
    names = [rest.split(" AS ")[-1] for name, rest in instructions(text) if name == "FROM"]
    assert names == ["devel-base", "devel-build", "devel", "runtime-base", "runtime-build", "runtime"]
    parts = text.split(" AS devel\n")[1].split("\nFROM ", 1)[1]
    assert "cuda-libraries-" in parts
    assert "cuda-toolkit-" not in parts
    # Each stage copies from its own.
    assert set(re.findall(r"--from=(\S+)", parts)) == {"runtime-build", "devel"}
    path = tmp_path / "Dockerfile"
    path.write_text(text, encoding="utf-8")
    judged = subprocess.run([tool("hadolint"), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout) == (0, "")


def test_two_plans_that_are_no_stages_of_one_stack_are_refused() -> None:
    build, runtime = plan_for("cuda", "ubuntu24.04"), plan_for("cuda", "ubuntu24.04", stage="runtime")
    others = (
        (runtime, build, "of the stages runtime and build"),
        (build, plan_for("cuda", "ubuntu22.04", stage="runtime"), "different hosts"),
        (build, plan_for("cuda==12.9.*", "ubuntu24.04", stage="runtime"), "different versions"),
    )
    for first, second, why in others:
        with pytest.raises(UsageError, match=why):
            render_stages(first, second)


def test_what_is_left_out_is_said() -> None:
    assert left_out_of(plan_on("ubuntu24.04")) == ["driver: skipped, because a container gets them from its host"]
    assert "CodeReady" in left_out_of(plan_on("rhel9"))[1]
    assert "# warning: driver: skipped" in render(plan_on("rhel9"))


def test_a_plan_for_the_machine_alone_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="nothing in this plan"):
        render(plan_for("driver", "ubuntu24.04"))


@pytest.mark.parametrize(
    ("system", "image"),
    {
        "ubuntu24.04": "docker.io/library/ubuntu:24.04",
        "linuxmint22": "docker.io/library/ubuntu:24.04",
        "rhel9.4": "registry.access.redhat.com/ubi9/ubi:9.7",
        "rocky9": "docker.io/rockylinux/rockylinux:9",
        "opensuse-leap15.6": "registry.opensuse.org/opensuse/leap:15.6",
        "sles15.7": "registry.suse.com/bci/bci-base:15.7",
    }.items(),
)
def test_the_image_is_that_of_the_facts_with_its_source(system: str, image: str) -> None:
    plan = plan_for("cuda", system)
    assert base_image(plan) == image
    assert isinstance(plan.image, BaseImage)
    assert plan.image.sources


@pytest.mark.parametrize("system", ["opensuse-tumbleweed", "debian10", "l4t36"])
def test_a_system_without_an_image_in_the_facts_is_refused(system: str) -> None:
    arch = "aarch64" if system == "l4t36" else "x86_64"
    gpu = "Jetson AGX Orin" if system == "l4t36" else "L4"
    with pytest.raises(UnsupportedError, match="no container image") as caught:
        render(plan_for("cuda", system, gpu=gpu, arch=arch))
    assert "matrix show systems" in caught.value.hint


@pytest.mark.parametrize("name", ["ubuntu:24.04\nRUN evil", "$(id)", "", "-x", "a b", "#", "ubuntu:24.04 AS x"])
def test_no_image_is_made_up(name: str) -> None:
    with pytest.raises(UnsupportedError, match="no container image"):
        base_image(replace(plan_of(), image=BaseImage(name=name)))


def hostile_plan(folder: Path, text: str) -> Plan:
    def step(identity: str, **fields: Any) -> Step:
        filled = {"component": "cuda", "kind": "run", "title": text, "why": text, "phase": "toolkit", **fields}
        return Step(id=identity, **filled)

    return plan_of(
        step("file", files=(FileWrite(path=f"{folder}/written", content=text),)),
        step("run", commands=(("prog", text), ("prog", "#", text, "\\"))),
        name=text,
        version=text,
        warnings=(text,),
    )


@settings(max_examples=120, deadline=None)
@given(texts)
def test_hostile_strings_arrive_exactly(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    found = instructions(render(hostile_plan(folder, text)))
    assert [name for name, _ in found] == ["FROM", "RUN", "ENV", "ENV", "LABEL"]
    rest = found[1][1]
    script = json.loads(rest)[2] if rest.startswith("[") else rest
    prog = "prog() { printf '%s\\0' \"$@\"; }\n"
    ran = subprocess.run(["sh", "-c", prog + script], capture_output=True, check=True)
    assert ran.stdout == f"{text}\0#\0{text}\0\\\0".encode()
    assert (folder / "written").read_bytes() == text.encode()


def test_what_is_fetched_for_the_driver_too_is_fetched_in_an_image() -> None:
    text = render(plan_for("driver cuda", "rhel9", methods=("local",)))
    layers = [rest for name, rest in instructions(text) if name == "RUN" and "rpm --install" in rest]
    assert layers
    for layer in layers:
        # Every layer throws away what it has fetched, so the file has to come in the one that installs it.
        file = re.search(r"rpm --install (\S+\.rpm)", layer)
        assert file
        assert re.search(rf"curl .*--output\s+{re.escape(file[1])} .*rpm --install", layer)
