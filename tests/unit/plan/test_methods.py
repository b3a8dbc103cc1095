"""Methods beside the network: archives, sources, local packages, runfiles, the distribution, containers."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.unit.plan.making import CUDA, DRIVER, commands, host, matrix, pick, plan, refusal, stack, words
from tests.unit.plan.test_build import demand_sound

from gpustack.model.host import Gpu, Installed
from gpustack.model.request import Imex, Request
from gpustack.plan.build import build
from gpustack.plan.draft import draft
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve


def test_an_archive_is_pinned_and_its_links_stay_links() -> None:
    made = plan(host("ubuntu20.04"), pick("cuda", "11.1.1", state="keep"), pick("cudnn", "8.0.5.39", "tar"))
    demand_sound(made)
    artifact = next(artifact for step in made.steps for artifact in step.artifacts)
    assert artifact.url.endswith("cudnn-11.1-linux-x64-v8.0.5.39.tgz")
    assert re.fullmatch(r"[0-9a-f]{64}", artifact.sha256)
    assert "--strip-components=1" in words(made)
    assert any(argv[:3] == ("cp", "-R", "-P") and argv[-1] == "/usr/local/cuda-11.1/lib64/" for argv in commands(made))


def test_the_build_for_this_cuda_and_platform_is_taken() -> None:
    arm = plan(
        host("ubuntu22.04", arch="aarch64"), pick("cuda", "12.2.2", state="keep"), pick("cudnn", "8.9.6.50", "tar")
    )
    assert "cudnn-linux-sbsa-8.9.6.50_cuda12-archive" in words(arm)
    machine = host(installed={"cuda": Installed(version="13.0.2", method="network")})
    assert "You asked for cuDNN 8.9.6.50" in refusal(machine, "cudnn==8.9.6.50", "cuda==13.0.2", method="tar").message


def test_a_toolkit_by_archives_has_no_driver_in_it() -> None:
    made = plan(host(), pick("cuda", "12.6.2", "tar"))
    demand_sound(made)
    names = [artifact.path.rpartition("/")[2] for step in made.steps for artifact in step.artifacts]
    assert any(name.startswith("cuda_nvcc-") for name in names)
    assert not any(name.startswith(("nvidia_driver", "fabricmanager", "imex", "libnvidia_nscq")) for name in names)


def test_ffmpeg_is_built_for_the_oldest_gpu_that_the_toolkit_knows() -> None:
    gpus = (Gpu(compute_capability="6.1"), Gpu(compute_capability="8.9"))
    from msgspec.structs import replace

    machine = replace(host(), gpus=gpus)
    headers = pick("nv-codec-headers", "12.2.72.0", "source")
    made = plan(machine, pick("cuda", "12.9.1"), headers, pick("ffmpeg", "7.1.2", "source"))
    demand_sound(made)
    text = words(made)
    assert "--nvccflags=-gencode arch=compute_61,code=sm_61 -O2" in text
    assert "--enable-libnpp" in text
    assert "--exact-version=12.2.72.0 ffnvcodec" in text
    newer = words(plan(machine, pick("cuda", "13.0.2"), headers, pick("ffmpeg", "8.1.2", "source")))
    assert "compute_89" in newer
    assert "--enable-libnpp" not in newer
    assert "--enable-cuda-sdk" not in text + newer
    bare = words(plan(machine, headers, pick("ffmpeg", "7.1.2", "source")))
    assert "--enable-nonfree" not in bare


def test_sources_without_a_sum_are_checked_by_signature_or_commit() -> None:
    signed = words(plan(host(), pick("ffmpeg", "7.1.3", "source")))
    assert "gpgv --keyring" in signed
    assert "FCF986EA15E6E293A5644F10B4322F04D67658D8" in signed
    cloned = words(plan(host(), pick("nv-codec-headers", "12.0.16.1", "source")))
    assert re.search(r"checkout --quiet --detach [0-9a-f]{40}", cloned)
    assert "--branch n12.0.16.1" in cloned


def test_local_packages_come_in_the_order_of_their_dependencies() -> None:
    made = plan(host("ubuntu20.04"), pick("cuda", "11.1.1", state="keep"), pick("cudnn", "8.0.5.39", "local"))
    demand_sound(made)
    files = [argv[-1].rpartition("/")[2] for argv in commands(made) if "dpkg" in argv]
    names = ("libcudnn8", "libcudnn8-dev", "libcudnn8-samples")
    assert files == [f"{name}_8.0.5.39-1+cuda11.1_amd64.deb" for name in names]


def test_a_local_repository_brings_its_own_key() -> None:
    made = plan(host(), pick("cuda", "13.0.2", state="keep"), pick("cudnn", "9.14.0.64", "local"))
    text = words(made)
    assert (
        "find /var/cudnn-local-repo-ubuntu2404-9.14.0 -name *-keyring.gpg -exec cp -- {} /usr/share/keyrings/ ;" in text
    )
    assert "libcudnn9-cuda-13=9.14.0.64-1" in text


def test_a_cuda_installer_brings_its_driver_too() -> None:
    made = plan(
        host("ubuntu22.04"), pick("driver", "560.35.03", "local", flavour="open"), pick("cuda", "12.6.2", "local")
    )
    demand_sound(made)
    text = words(made)
    assert text.count("dpkg -i") == 1
    assert text.index("dpkg -i") < text.index("nvidia-open-560=560.35.03-*") < text.index("cuda-toolkit-12-6=12.6.2-1")
    assert "cuda-keyring" not in text
    assert (
        "Method local offers no driver 595.112.07"
        in refusal(host("ubuntu22.04"), "driver==595.112.07", method="local").message
    )
    rpm = words(plan(host("rhel9.4"), pick("cuda", "12.6.2", "local")))
    assert re.search(r"rpm --install \S+/cuda-repo-rhel9-12-6-local-12\.6\.2\S+\.rpm", rpm)


def test_a_runfile_is_pinned_and_keeps_nouveau_away() -> None:
    made = plan(host(), pick("driver", "580.95.05", "runfile", flavour="open"))
    demand_sound(made)
    text = words(made)
    assert "NVIDIA-Linux-x86_64-580.95.05.run --silent --dkms --kernel-module-type=open" in text
    assert "update-initramfs" in text
    toolkit = words(plan(host(), pick("cuda", "12.6.2", "runfile")))
    assert "cuda_12.6.2_560.35.03_linux.run --silent --toolkit" in toolkit
    assert "the nearest are 595.84 and 595.99.02" in refusal(host(), "driver==595.91.07", method="runfile").message


def test_the_distributions_packages_come_with_its_components() -> None:
    made = plan(host("debian12"), pick("driver", "535.261.03", "distro", flavour="proprietary"))
    demand_sound(made)
    assert "non-free-firmware" in words(made)
    assert "nvidia-driver=535.261.03-1" in words(made)


@pytest.mark.parametrize(
    ("component", "version", "sections"),
    [
        ("ffmpeg", "5.1.9", set()),
        ("nv-codec-headers", "11.1.5.2", set()),
        ("cuda", "11.8.0", {"contrib", "non-free"}),
        ("driver", "535.261.03", {"contrib", "non-free", "non-free-firmware"}),
    ],
)
def test_components_of_the_archive_are_added_for_what_lies_in_them(
    component: str, version: str, sections: set[str]
) -> None:
    flavour = {"flavour": "proprietary"} if component == "driver" else {}
    made = plan(host("debian12"), pick(component, version, "distro", **flavour))
    asked = " ".join(word for argv in commands(made) if "sed" in argv for word in argv)
    assert set(re.findall(r" (contrib|non-free-firmware|non-free)/", asked)) == sections


@pytest.mark.parametrize(
    ("system", "asked", "is_warned"),
    [
        ("debian13", "driver", True),
        ("amzn2023", "cuda", True),
        ("fedora42", "driver==590.48.01", True),
        ("ubuntu24.04", "driver", False),
        ("rhel9", "cuda", False),
    ],
)
def test_a_folder_that_only_guides_name_is_planned_with_a_warning(system: str, asked: str, is_warned: bool) -> None:
    machine = host(system)
    request = Request(requirements=(parse_requirement(asked),), methods={"": "network"})
    made = build(machine, request, resolve(matrix(), machine, request), matrix())
    told = [text for text in made.warnings if re.search(r"as far as read on 2026-\d\d-\d\d, nobody has seen", text)]
    assert bool(told) is is_warned


def test_the_folder_of_debian_13_has_no_driver_for_gpus_before_turing() -> None:
    message = refusal(host("debian13", gpus=("GTX 1060",)), "driver==580.*", method="network").message
    assert "580" in message
    assert "590.44.01" in message


def test_a_version_that_nobody_saw_in_the_archive_is_not_planned_from_it() -> None:
    message = refusal(host("ubuntu24.04"), "driver==595.112.07", method="distro").message
    assert "distro" in message


NOBLE, HARDWARE_ENABLEMENT = "6.8.0-139-generic", "7.0.0-31-generic"


@pytest.mark.parametrize(
    ("kernel", "follows"),
    [
        (NOBLE, "linux-modules-nvidia-595-open-generic"),
        (HARDWARE_ENABLEMENT, "linux-modules-nvidia-595-open-generic-hwe-24.04"),
    ],
)
def test_with_secure_boot_on_the_modules_that_canonical_signs_are_installed(kernel: str, follows: str) -> None:
    machine = host("ubuntu24.04", kernel=kernel, secure_boot=True)
    made = plan(machine, pick("driver", "595.91.07", "distro", flavour="open"))
    demand_sound(made)
    install = next(step for step in made.steps if "install-driver" in step.id)
    assert {f"linux-modules-nvidia-595-open-{kernel}", follows} <= set(install.packages)
    assert "Secure Boot is on" in install.why
    assert "mokutil" not in words(made)
    assert "linux-headers" not in words(made)


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({"kernel": NOBLE, "secure_boot": False}, "595.91.07"),
        ({"kernel": NOBLE, "secure_boot": True}, "615.71.09"),
        ({"kernel": "6.8.0-1031-realtime", "secure_boot": True}, "595.91.07"),
        ({"kernel": NOBLE, "next_kernel": "6.8.0-1031-realtime", "secure_boot": True}, "595.91.07"),
    ],
)
def test_modules_are_built_where_none_are_signed_for_a_kernel(fields: dict[str, Any], version: str) -> None:
    made = plan(host("ubuntu24.04", **fields), pick("driver", version, "distro", flavour="open"))
    assert "linux-modules-nvidia" not in words(made)
    assert "linux-headers" in words(made)
    is_on = fields["secure_boot"]
    assert ("mokutil --import" in words(made)) is is_on
    assert any("enrols a key" in text for text in made.warnings) is is_on


def test_triton_speaks_the_words_of_its_era() -> None:
    new = plan(host(), pick("container-toolkit", "1.18.0"), pick("triton", "25.08", "container"))
    demand_sound(new)
    assert "nvcr.io/nvidia/tritonserver:25.08-py3 tritonserver --model-repository=/models" in words(new)
    old = words(plan(host(), pick("triton", "19.05", "container")))
    assert "nvcr.io/nvidia/tensorrtserver:19.05-py3 trtserver --model-store=/models" in old
    podman = host(installed={"podman": Installed(version="5.1")})
    assert "podman run" in words(plan(podman, pick("triton", "25.08", "container")))


def test_wheels_go_into_an_environment_of_their_own() -> None:
    made = plan(host(), pick("cuda", "13.0.2", state="keep"), pick("cudnn", "9.14.0.64", "pip"))
    demand_sound(made)
    text = words(made)
    assert "/opt/gpustack/venv-cuda13/bin/python3 -m pip install --no-input" in text
    assert "sudo" not in text


def test_racks_get_imex_of_the_drivers_version() -> None:
    made = plan(host(arch="aarch64", gpus=("GB200",)), DRIVER)
    demand_sound(made)
    assert "nvidia-imex=580.95.05-*" in words(made)
    assert ("systemctl", "enable", "nvidia-imex.service") in commands(made)
    assert "nvidia-imex" not in words(plan(host(), DRIVER))


@pytest.mark.parametrize(
    ("who", "has", "lacks"),
    [
        ("host", ["nvidia-imex=580.95.05-*", "enable nvidia-imex.service"], ["/dev/null"]),
        (
            "dra",
            ["nvidia-imex=580.95.05-*", "/dev/null /etc/systemd/system/nvidia-imex.service"],
            ["enable nvidia-imex"],
        ),
        ("off", [], ["nvidia-imex=", "enable nvidia-imex"]),
    ],
)
def test_imex_of_a_rack_is_run_by_whom_the_user_names(who: Imex, has: list[str], lacks: list[str]) -> None:
    machine = host(arch="aarch64", gpus=("GB200",))
    made = build(machine, Request(requirements=(), imex=who), stack(matrix(), machine, DRIVER), matrix())
    demand_sound(made)
    said = "\n".join([words(made), *(" ".join(command) for command in commands(made))])
    assert [text for text in has if text not in said] == []
    assert [text for text in lacks if text in said] == []
    assert any("--imex off" in text for text in made.warnings) == (who == "off")


def test_imex_is_ignored_with_a_warning_outside_of_a_rack() -> None:
    made = build(host(), Request(requirements=(), imex="dra"), stack(matrix(), host(), DRIVER), matrix())
    assert any("no GPU here belongs to an NVLink rack" in text for text in made.warnings)


RUNTIME = Request(requirements=(), stage="runtime")


@pytest.mark.parametrize(
    ("os", "libraries"),
    [
        (
            "ubuntu24.04",
            ["cuda-libraries-13-0=13.0.2-1", "libcudnn9-cuda-13=9.14.0.64-1", "libnccl2=2.28.3-1+cuda13.0"],
        ),
        ("rhel9", ["cuda-libraries-13-0-13.0.2-1", "libcudnn9-cuda-13-9.14.0.64-1", "libnccl-2.28.3-1+cuda13.0"]),
    ],
)
def test_a_runtime_stage_takes_libraries_alone(os: str, libraries: list[str]) -> None:
    picks = (pick("cuda", "13.0.2"), pick("cudnn", "9.14.0.64"), pick("nccl", "2.28.3"))
    made = build(host(os), RUNTIME, stack(matrix(), host(os), *picks), matrix())
    demand_sound(made)
    named = [name for argv in commands(made) if "install" in argv for name in argv]
    assert [name for name in libraries if name not in named] == []
    assert not any("toolkit" in name or "-dev" in name for name in named)
    assert not any("--stage runtime" in text for text in made.warnings)


def test_what_comes_whole_in_a_runtime_stage_is_said() -> None:
    made = build(host(), RUNTIME, stack(matrix(), host(), pick("cuda", "13.0.2", "tar")), matrix())
    assert any("cuda 13.0.2 by the method tar comes whole" in text for text in made.warnings)


def test_docker_is_configured_only_where_it_is() -> None:
    toolkit = pick("container-toolkit", "1.18.0")
    there = words(plan(host(installed={"docker": Installed(version="28")}, described=False), toolkit))
    assert "nvidia-ctk runtime configure --runtime=docker" in there
    assert "daemon-reload" not in there
    assert "nvidia-ctk" not in words(plan(host(described=False), toolkit))


def test_a_method_without_a_planner_is_refused() -> None:
    assert "no zip files of CUDA" in refusal(host(), "cuda==13.0.2", method="zip").message


@pytest.mark.parametrize("wanted", ["right", "wrong"])
def test_only_the_expected_key_is_taken(wanted: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The plan's own commands, run by the real gpg on a key made here: another fingerprint stops them."""
    short = tempfile.TemporaryDirectory(prefix="gk")  # a socket's path may not be long
    request.addfinalizer(short.cleanup)
    home = Path(short.name)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
    made = ["--passphrase", "", "--quick-generate-key", "nobody <nobody@example.org>", "rsa2048", "sign", "never"]
    subprocess.run([*gpg, *made], check=True, env=environment, capture_output=True)
    shown = subprocess.run([*gpg, "--list-keys"], check=True, env=environment, capture_output=True)
    own = re.findall(r"\b[0-9A-F]{40}\b", shown.stdout.decode())[0]
    steps = [step for step in plan(host("rhel9.4"), CUDA).steps if step.title.startswith("check the signing key")]
    fingerprint = next(word for argv in steps[0].commands for word in argv if re.fullmatch(r"[0-9A-F]{40}", word))
    source = tmp_path / "var/cache/gpustack/keys/cuda-rhel9-D42D0685.pub"
    source.parent.mkdir(parents=True)
    exported = subprocess.run([*gpg, "--armor", "--export", own], check=True, env=environment, capture_output=True)
    source.write_bytes(exported.stdout)
    codes = []
    for argv in steps[0].commands:
        if argv[0] == "rpm":
            continue
        local = [f"{tmp_path}{word}" if word.startswith("/") else word for word in argv]
        local = [own if word == fingerprint and wanted == "right" else word for word in local]
        codes.append(subprocess.run(local, check=False, env=environment, capture_output=True).returncode)
        if codes[-1]:
            break
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=True, env=environment)
    target = tmp_path / "etc/pki/rpm-gpg/RPM-GPG-KEY-NVIDIA-D42D0685"
    assert (codes[-1] == 0) == (wanted == "right")
    assert target.exists() == (wanted == "right")


def test_a_step_id_is_its_content() -> None:
    from gpustack.plan.draft import assemble

    one = draft("x", kind="note", component="", title="a", why="b", phase="preflight")
    same = draft("x", kind="note", component="", title="a", why="b", phase="preflight")
    other = draft("x", kind="note", component="", title="a", why="c", phase="preflight")
    assert assemble([one])[0].id == assemble([same])[0].id
    assert assemble([one])[0].id != assemble([other])[0].id
    late = draft("z", kind="note", component="", title="a", why="b", phase="driver")
    with pytest.raises(ValueError, match="comes before"):
        assemble([draft("y", after=["z"], kind="note", component="", title="a", why="b", phase="preflight"), late])
    first, second = assemble(
        [draft("y", after=["x"], kind="note", component="", title="a", why="b", phase="preflight"), one]
    )
    assert second.depends_on == (first.id,)


def test_the_driver_lock_reaches_every_family() -> None:
    assert "versionlock add *nvidia*580.95.05*" in words(plan(host("rhel10.0"), DRIVER))
    assert "addlock nvidia-open-580" in words(plan(host("sles15.7"), DRIVER))
    azure = plan(host("azurelinux3.0"), DRIVER)
    assert any(file.path.startswith("/etc/tdnf/locks.d/") for step in azure.steps for file in step.files)
