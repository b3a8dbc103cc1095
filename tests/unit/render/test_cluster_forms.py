"""The forms for clusters: Apptainer, values of the GPU operator, Spack externals, module files without root."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace
from spython.main.parse.parsers import SingularityParser
from tests.unit.render.cases import GOLDEN, compare, plan_for, plan_on, tool

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact
from gpustack.render import apptainer, bootc, gpu_operator, spack
from gpustack.render.api import render, render_tree
from gpustack.render.image_steps import groups_of
from gpustack.render.settings import Settings

CHART = Path(__file__).parents[2] / "fixtures/charts/gpu-operator-values.yaml"
LMOD = "/usr/share/lmod/lmod/libexec/lmod"


@pytest.mark.parametrize("os_name", ["ubuntu24.04", "rhel9", "ubuntu22.04"])
def test_apptainer_is_the_golden_one(os_name: str, update_golden: bool) -> None:
    plan = plan_on(os_name)
    compare(GOLDEN / os_name / "stack.apptainer", plan, apptainer.render(plan, Settings()), update=update_golden)


@pytest.mark.parametrize("os_name", ["ubuntu24.04", "rhel9", "sles15.6", "ubuntu22.04"])
def test_a_definition_is_read_with_the_commands_of_the_image(os_name: str, tmp_path: Path) -> None:
    """spython is a reader of definitions; sh reads the section; nothing of it is the driver's."""
    path = tmp_path / "plan.def"
    path.write_text(apptainer.render(plan_on(os_name), Settings()), encoding="utf-8")
    recipe = SingularityParser(str(path)).parse()["spython-base"]
    assert recipe.fromHeader == plan_on(os_name).image.name  # type: ignore[union-attr]
    script = "\n".join(recipe.install)
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    groups, _ = groups_of(plan_on(os_name))
    wanted = [" ".join(" ".join(lines).split()) for group in groups for lines in group.commands()]
    written = " ".join(script.replace("\\\n", " ").split())
    assert all(command in written for command in wanted)
    assert not re.search(r"nvidia-open|cuda-drivers|linux-headers|systemctl", re.sub(r"(?m)^\s*#.*$", "", script))


def test_an_image_of_ones_own_is_named_and_looked_at() -> None:
    own = Settings(image="nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04")
    text = apptainer.render(plan_on("ubuntu24.04"), own)
    assert "\nFrom: nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04\n" in text
    assert "'ubuntu 24.04'" in text
    assert "exit 4" in text


BOOTC = Settings(image="registry.redhat.io/rhel9/rhel-bootc:9.4")
MACHINE = "driver fabric-manager cuda container-toolkit"


def test_an_image_to_boot_has_the_whole_plan(tmp_path: Path, update_golden: bool) -> None:
    plan = plan_for(MACHINE, "rhel9.4", gpu="H100")
    text = bootc.render(plan, BOOTC)
    compare(GOLDEN / "rhel9/stack.bootc", plan, text, update=update_golden)
    path = tmp_path / "Containerfile"
    path.write_text(text, encoding="utf-8")
    judged = subprocess.run([tool("hadolint"), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout) == (0, "")
    order = [
        "kernel-devel-$kernel",
        "install nvidia-open",
        "enable nvidia-fabricmanager",
        "dkms autoinstall",
        "modinfo",
    ]
    places = [
        text.index(words) for words in (*order, "/usr/lib/bootc/kargs.d/", "dnf -y install nvidia-container-toolkit")
    ]
    assert places == sorted(places)
    # Of the machine that builds, or of a boot: none of it.
    assert not re.search(r"uname|systemctl reboot|kernel-devel-matched|dracut|modprobe nvidia|gpustack verify", text)
    assert text.endswith("RUN bootc container lint\n")


def test_the_section_of_kernel_arguments_is_toml() -> None:
    text = bootc.render(plan_for("driver", "fedora42"), Settings(image="quay.io/fedora/fedora-bootc:42"))
    found = re.search(r"printf '%s\\n' '(kargs = [^']*)'", text)
    assert found
    arguments = read_toml(found[1])["kargs"]
    assert arguments == ["rd.driver.blacklist=nouveau,nova_core", "modprobe.blacklist=nouveau,nova_core"]


def read_toml(text: str) -> dict[str, list[str]]:
    """Python 3.10 has no reader; a list of strings is the same in JSON."""
    name, _, value = text.partition(" = ")
    return {name: json.loads(value)}


def test_what_bootc_cannot_boot_is_refused() -> None:
    with pytest.raises(UsageError, match="bootc boots"):
        bootc.render(plan_for("driver", "ubuntu24.04"), Settings(image="ubuntu:24.04"))
    with pytest.raises(UsageError) as caught:
        bootc.render(plan_for("driver", "rhel9"), Settings())
    assert caught.value.where == "--base-image"
    assert "CodeReady" in bootc.left_out_of(plan_for("driver", "rhel9"))[0]


def test_values_of_the_operator_leave_driver_and_toolkit_to_the_nodes(update_golden: bool) -> None:
    plan = plan_for("driver container-toolkit", "ubuntu24.04")
    text = gpu_operator.render(plan)
    compare(GOLDEN / "ubuntu24.04/stack.gpu-operator", plan, text, update=update_golden)
    values = yaml.safe_load(text)
    assert values == {"driver": {"enabled": False}, "toolkit": {"enabled": False}}
    assert yaml.safe_load(gpu_operator.render(plan_for("driver", "ubuntu24.04")))["toolkit"] == {"enabled": True}


def test_values_have_the_keys_and_types_of_the_chart() -> None:
    chart = yaml.safe_load(CHART.read_text(encoding="utf-8"))
    values = yaml.safe_load(gpu_operator.render(plan_for("driver container-toolkit", "rhel9", gpu="H100")))
    for section, inner in values.items():
        for key, value in inner.items():
            assert type(chart[section][key]) is type(value), f"{section}.{key}"


def test_values_for_what_the_operator_does_not_manage_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no driver"):
        gpu_operator.render(replace(plan_for("cuda", "ubuntu24.04"), stack={}))
    host = plan_on("ubuntu24.04").host
    with pytest.raises(UsageError, match="no node"):
        gpu_operator.render(replace(plan_on("ubuntu24.04"), host=replace(host, environment="container")))


def test_spack_externals(update_golden: bool) -> None:
    plan = plan_for("driver cuda cudnn nccl", "rhel9")
    text = spack.render(plan)
    compare(GOLDEN / "rhel9/stack.spack", plan, text, update=update_golden)
    packages = yaml.safe_load(text)["packages"]
    assert set(packages) == {"cuda", "cudnn", "nccl"}
    for name, one in packages.items():
        (external,) = one["externals"]
        assert one["buildable"] is False
        assert re.fullmatch(rf"{name}@[0-9.]+(-\d+)?", external["spec"])
        assert external["prefix"] == ("/usr" if name != "cuda" else f"/usr/local/cuda-{major_minor(plan)}")
    assert spack.left_out_of(plan) == ["driver: Spack has no recipe for it"]


def major_minor(plan: Plan) -> str:
    return ".".join(plan.stack["cuda"].version.split(".")[:2])


def test_spack_is_refused_where_nothing_has_a_folder() -> None:
    with pytest.raises(UnsupportedError, match="cuda: by pip it has no folder"):
        spack.render(plan_for("cuda", "ubuntu24.04", methods=("cuda=pip",)))


def small(plan: Plan, folder: Path) -> Plan:
    """The plan with small archives of the test's own in place of NVIDIA's: same names, same layout."""
    folder.mkdir(exist_ok=True)

    def own(one: Artifact, component: str) -> Artifact:
        name = one.path.rpartition("/")[2]
        top = folder / name.removesuffix(".tar.xz")
        for inner, text in (("bin/tool", "#!/bin/sh\n"), ("include/a.h", ""), (f"lib/lib{component}.so", name)):
            (top / inner).parent.mkdir(parents=True, exist_ok=True)
            (top / inner).write_text(text)
        with tarfile.open(folder / name, "w:xz") as packed:
            packed.add(top, top.name)
        made = (folder / name).read_bytes()
        return replace(one, url=f"file://{folder / name}", sha256=hashlib.sha256(made).hexdigest(), size=len(made))

    steps = [
        replace(step, artifacts=tuple(own(one, step.component) for one in step.artifacts[:1]))
        if step.kind == "download" and step.component in {"cuda", "cudnn"}
        else step
        for step in plan.steps
    ]
    seen: set[str] = set()
    kept = []
    for step in steps:
        # A toolkit has forty archives: a few of them are as good.
        few = step.component == "cuda" and step.kind == "download"
        if few and len([one for one in seen if one.startswith("cuda")]) > 2:
            continue
        seen.add(f"{step.component}{step.id}" if few else step.id)
        kept.append(step)
    return replace(plan, steps=tuple(kept))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two releases of CUDA and cuDNN, installed side by side by the script, and the folder of the script."""
    base = tmp_path_factory.mktemp("modules")
    plans = {
        "old": small(
            plan_for("cuda==11.8.* cudnn", "ubuntu22.04", methods=("tar", "driver=network")), base / "archives"
        ),
        "new": small(
            plan_for("cuda==12.9.* cudnn", "ubuntu22.04", methods=("tar", "driver=network")), base / "archives"
        ),
    }
    prefix = base / "shared" / "nvidia"
    for path, text in render_tree(plans, "modules", Settings(prefix=str(prefix))).items():
        (base / "written" / path).parent.mkdir(parents=True, exist_ok=True)
        (base / "written" / path).write_text(text, encoding="utf-8")
    return base / "written", prefix


def install(written: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", str(written / "install.sh")], capture_output=True, text=True, check=False)


@pytest.mark.gate
def test_several_releases_are_installed_without_root_and_loaded_by_lmod(shelf: tuple[Path, Path]) -> None:
    written, prefix = shelf
    subprocess.run(["shellcheck", "--shell", "sh", str(written / "install.sh")], check=True)
    first = install(written)
    assert first.returncode == 0, first.stdout + first.stderr
    cudas = sorted(path.name for path in (prefix / "cuda").iterdir())
    assert [name.rpartition(".")[0] for name in cudas] == ["11.8", "12.9"]
    assert all((prefix / "cuda" / name / "lib64" / "libcuda.so").exists() for name in cudas)
    assert not list(prefix.glob(".gpustack.*"))
    again = install(written)
    assert (again.returncode, again.stdout.count(" is there\n")) == (0, 4)
    assert all(path.stat().st_mode & stat.S_IROTH for path in prefix.rglob("*"))

    cudnns = sorted(path.name for path in (prefix / "cudnn").iterdir())
    assert [name.partition("-")[2] for name in cudnns] == ["cuda11", "cuda12"]
    for kind in ("lmod", "tcl"):
        folder = prefix / "modulefiles" / kind
        for cuda, cudnn in zip(cudas, cudnns, strict=True):
            shown = lmod(folder, "load", f"cuda/{cuda}", f"cudnn/{cudnn}")
            assert shown["CUDA_HOME"] == f"{prefix}/cuda/{cuda}"
            assert shown["PATH"].split(":")[0] == f"{prefix}/cuda/{cuda}/bin"
            assert shown["LD_LIBRARY_PATH"].split(":") == [
                f"{prefix}/cudnn/{cudnn}/lib64",
                f"{prefix}/cuda/{cuda}/lib64",
            ]
        # cuDNN for another CUDA than the one that is loaded.
        with pytest.raises(AssertionError, match=f"cuda/{cudas[1]}"):
            lmod(folder, "load", f"cuda/{cudas[0]}", f"cudnn/{cudnns[1]}")


def lmod(folder: Path, *words: str) -> dict[str, str]:
    """The variables after a command of Lmod."""
    script = f'eval "$({LMOD} bash {" ".join(words)})" && env'
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": os.environ["PATH"], "MODULEPATH": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_a_file_that_is_not_the_planned_one_is_not_installed(shelf: tuple[Path, Path], tmp_path: Path) -> None:
    written, prefix = shelf
    text = (written / "install.sh").read_text(encoding="utf-8")
    wrong = re.sub(r"(?m)^( +add .*)[0-9a-f]{64}$", rf"\g<1>{'0' * 64}", text, count=1)
    assert wrong != text
    script = tmp_path / "install.sh"
    script.write_text(wrong.replace(str(prefix), str(tmp_path / "prefix")), encoding="utf-8")
    done = install(tmp_path)
    assert done.returncode == 1
    assert "is not the planned file" in done.stderr
    assert list((tmp_path / "prefix").rglob("*")) == []


@pytest.mark.parametrize("prefix", ["", "relative", "/a b", "/a/../b", "/", "/a;b", "/a/", "/$HOME"])
def test_a_prefix_that_is_no_plain_folder_is_refused(prefix: str) -> None:
    plan = plan_for("cuda==12.9.*", "ubuntu22.04", methods=("tar", "driver=network"))
    with pytest.raises(UsageError) as caught:
        render_tree({"a": plan}, "modules", Settings(prefix=prefix))
    assert caught.value.where == "--prefix"


def test_modules_of_what_needs_root_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="cuda by network"):
        render_tree({"a": plan_for("cuda", "ubuntu22.04")}, "modules", Settings(prefix="/shared"))
    with pytest.raises(UsageError, match="several files"):
        render(plan_for("cuda", "ubuntu22.04"), "modules", Settings(prefix="/shared"))


def test_a_setting_of_another_format_is_refused() -> None:
    for settings, option in ((Settings(image="ubuntu:24.04"), "--base-image"), (Settings(prefix="/a"), "--prefix")):
        with pytest.raises(UsageError) as caught:
            render(plan_on("ubuntu24.04"), "shell", settings)
        assert caught.value.where == option
