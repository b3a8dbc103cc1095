"""The .run files: only what can be fetched and checked, with the host made ready for them."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import commands, contents, host, matrix, pick, plan, refusal, words

from gpustack.errors import UnsupportedError
from gpustack.model.host import Installed
from gpustack.model.plan import Plan
from gpustack.model.request import Request, Requirement
from gpustack.model.steps import Step
from gpustack.plan.build import build
from gpustack.solve.offers import OfferBook
from gpustack.solve.resolve import resolve

SYSTEMS = ("ubuntu25.10", "ubuntu24.04", "debian12", "rhel9", "rhel7", "fedora42", "sles15.7", "azurelinux3.0")


def step(made: Plan, part: str) -> Step:
    return next(one for one in made.steps if part in one.id)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(("component", "arch"), [("driver", "x86_64"), ("driver", "aarch64"), ("cuda", "x86_64")])
def test_what_is_offered_can_be_planned(system: str, component: str, arch: str) -> None:
    machine = host(system, arch=arch, gpus=("A10",))
    request = Request(requirements=(Requirement(component=component),), methods={component: "runfile"})
    offers = OfferBook(matrix(), machine, request)
    offered = [row.version for row in matrix().releases(component) if offers.offer(component, row.version)]
    assert len(offered) > 20
    for version in (offered[0], offered[len(offered) // 2], offered[-1]):
        download = next(one for one in plan(machine, pick(component, version, "runfile")).steps if one.artifacts)
        assert download.artifacts[0].sha256 or "md5sum" in words(plan(machine, pick(component, version, "runfile")))


def test_the_newest_production_driver_is_planned_where_no_repository_is() -> None:
    machine = host("ubuntu25.10", gpus=("A10",))
    request = Request(requirements=(Requirement(component="driver"),), methods={"": "runfile"})
    made = build(machine, request, resolve(matrix(), machine, request), matrix())
    version = made.stack["driver"].version
    assert made.stack["driver"].reason.startswith(
        "requested (any version); newest compatible release of a production branch (R595)"
    )
    assert f"/{version}/NVIDIA-Linux-x86_64-{version}.run" in made.steps[-1].id or any(
        f"/{version}/NVIDIA-Linux-x86_64-{version}.run" in artifact.url
        for one in made.steps
        for artifact in one.artifacts
    )


def test_a_file_that_nobody_gave_a_sum_is_refused() -> None:
    assert "the nearest are 595.84 and 595.99.02" in refusal(host(), "driver==595.91.07", method="runfile").message


def test_the_order_around_the_driver() -> None:
    made = plan(host("ubuntu25.10"), pick("driver", "595.84", "runfile", flavour="open"))
    kinds = [one.id.rsplit("-", 1)[0] for one in made.steps]
    wanted = ("runfile-tools-driver", "kernel-headers", "blacklist", "initramfs", "install-driver", "persistence-unit")
    places = [
        next(number for number, name in enumerate(kinds) if name.startswith(part))
        for part in wanted
        if part != "kernel-headers"
    ]
    assert places == sorted(places)
    assert made.steps[places[-1]].depends_on == (made.steps[places[-2]].id,)
    text = contents(made)["/etc/modprobe.d/gpustack-blacklist.conf"]
    assert "blacklist nouveau" in text
    assert "nova" in text
    assert "dkms" in step(made, "runfile-tools").packages
    assert any("no X server may run" in one.title for one in made.steps)
    assert step(made, "install-driver").undo == (("nvidia-uninstall", "--silent"),)


LINUX = sorted(
    row.key
    for row in matrix().systems
    if row.family != "windows"
    and not (row.binaries or row.is_read_only or row.support == "own channel")
    and not row.id.startswith(("wsl-", "l4t"))
)


@pytest.mark.parametrize("system", LINUX)
def test_headers_compiler_and_make_are_there_before_the_installer_builds(system: str) -> None:
    made = plan(host(system, gpus=("A10",)), pick("driver", "595.84", "runfile", flavour="open"))
    before = made.steps[: next(number for number, one in enumerate(made.steps) if "install-driver" in one.id)]
    headers = [one for one in before if one.id.startswith("headers-") and "match" not in one.id]
    assert len(headers) == 1
    if headers[0].kind == "manual":
        assert "/lib/modules/$(uname -r)/build" in headers[0].done_when
        return
    assert any("headers" in name or "devel" in name for name in headers[0].packages)
    names = {name for one in before for name in one.packages}
    assert {"gcc", "make"} <= names or "build-essential" in names
    assert any("/lib/modules/$(uname -r)/build" in " ".join(argv) for one in before for argv in one.commands)


@pytest.mark.parametrize("system", ["centos6", "devuan", "gentoo", "slackware", "void"])
def test_where_there_is_no_systemd_nothing_is_asked_of_it(system: str) -> None:
    made = plan(host(system, gpus=("A10",)), pick("driver", "595.84", "runfile", flavour="open"))
    assert "systemctl" not in words(made)
    assert ("shutdown", "-r", "now") in commands(made)
    assert any("nvidia-persistenced has to be started at each boot" in text for text in made.warnings)


@pytest.mark.parametrize(
    ("system", "kernel", "package"),
    [
        ("amzn2", "5.10.245-245.983.amzn2.x86_64", "kernel-devel-5.10.245-245.983.amzn2.x86_64"),
        ("ol9", "6.12.0-100.28.2.2.el9uek.x86_64", "kernel-uek-devel-6.12.0-100.28.2.2.el9uek.x86_64"),
        ("photon5.0", "6.1.10-10.ph5-esx", "linux-esx-devel-6.1.10-10.ph5"),
        ("devuan", "6.1.0-40-amd64", "linux-headers-6.1.0-40-amd64"),
    ],
)
def test_the_headers_are_those_of_the_running_kernel(system: str, kernel: str, package: str) -> None:
    made = plan(host(system, gpus=("A10",), kernel=kernel), pick("driver", "595.84", "runfile", flavour="open"))
    assert package in step(made, "headers").packages
    assert not any("headers-match" in one.id for one in made.steps)


def test_a_gpu_that_nouveau_holds_needs_a_reboot_before() -> None:
    gpu = replace(host().gpus[0], bound="nouveau")
    made = plan(replace(host(), gpus=(gpu,)), pick("driver", "595.84", "runfile", flavour="open"))
    titles = [one.title for one in made.steps]
    before = titles.index("reboot, so that nouveau releases the GPU")
    assert made.steps[before].reboot_after
    assert before < next(number for number, text in enumerate(titles) if text.startswith("run NVIDIA"))
    assert titles.count("reboot") == 1


@pytest.mark.parametrize(
    ("version", "flavour", "switch"),
    [
        ("470.256.02", "", ""),
        ("535.261.03", "proprietary", "--kernel-module-build-directory=kernel"),
        ("535.261.03", "open", "--kernel-module-build-directory=kernel-open"),
        ("580.95.05", "open", "--kernel-module-type=open"),
    ],
)
def test_the_switch_for_the_flavour_is_that_of_the_installers_era(version: str, flavour: str, switch: str) -> None:
    made = plan(host("ubuntu22.04"), pick("driver", version, "runfile", flavour=flavour))
    command = next(argv for argv in commands(made) if argv[0] == "sh" and argv[1].endswith(f"-{version}.run"))
    assert [word for word in command if "kernel-module" in word] == ([switch] if switch else [])


def test_without_dkms_the_plan_says_what_a_kernel_update_needs() -> None:
    made = plan(host("sles15.7"), pick("driver", "580.95.05", "runfile", flavour="open"))
    one = step(made, "install-driver")
    assert "--dkms" not in one.commands[0]
    assert "after each kernel update" in one.why
    secure = plan(host("sles15.7", secure_boot=True), pick("driver", "580.95.05", "runfile", flavour="open"))
    assert any("--module-signing-secret-key" in text for text in secure.warnings)


def test_packages_of_a_driver_go_before_its_runfile_or_the_plan_refuses() -> None:
    there = Installed(
        version="580.82.07", method="network", origin="nvidia", packages=("nvidia-open", "libnvidia-compute")
    )
    made = plan(host(installed={"driver": there}), pick("driver", "580.95.05", "runfile", flavour="open"))
    titles = [one.title for one in made.steps]
    gone = titles.index("remove the driver packages of nvidia")
    assert gone < next(number for number, text in enumerate(titles) if text.startswith("run NVIDIA"))
    unknown = Installed(version="580.82.07", method="distro")
    with pytest.raises(UnsupportedError, match="its packages are not known") as refusal:
        plan(host(installed={"driver": unknown}), pick("driver", "580.95.05", "runfile", flavour="open"))
    assert "--method driver=distro" in (refusal.value.hint or "")


def test_a_toolkit_by_packages_goes_before_the_same_release_by_runfile() -> None:
    there = Installed(version="13.4.1", method="network", packages=("cuda-toolkit-13-4",))
    made = plan(host(installed={"cuda": there}), pick("cuda", "13.4.1", "runfile"))
    removal = next(one for one in made.steps if one.title.startswith("remove the toolkit"))
    assert "cuda-toolkit-13-4" in removal.commands[0]
    assert removal.phase == "prerequisites"


def test_a_toolkit_whose_sum_is_md5_only_says_so() -> None:
    made = plan(host(), pick("cuda", "13.4.1", "runfile"))
    assert any("no published sha256" in text for text in made.warnings)
    assert any(argv[0] == "md5sum" for argv in commands(made))
    toolkit = next(argv for argv in commands(made) if argv[0] == "sh")
    assert toolkit[2:] == ("--silent", "--toolkit")
    assert "build-essential" in words(made)
    assert "LD_LIBRARY_PATH" in contents(made)["/etc/profile.d/gpustack-cuda.sh"]


def test_no_file_of_the_facts_lies_elsewhere_than_at_nvidia() -> None:
    rows = [row for row in matrix().archives("driver-installers") if row.method == "runfile"]
    assert len(rows) > 400
    for row in rows:
        assert re.fullmatch(r"https://(us\.)?download\.nvidia\.com/[A-Za-z0-9_./-]+\.run", row.url), row.url
        assert row.sha256
        assert row.size or row.version == "595.99.02", row.file  # nobody has published its size


def test_an_image_gets_no_note_about_its_screen() -> None:
    made = plan(host(environment="chroot", gpus=()), pick("driver", "580.95.05", "runfile", flavour="open"))
    assert not any("X server" in one.title for one in made.steps)
