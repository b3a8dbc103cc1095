"""No plan builds on a package source that apt, dnf or zypper cannot read or use: it goes first, or nothing is planned."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.plan.making import matrix

from gpustack.detect.api import detect
from gpustack.errors import UnsupportedError
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable"
OF_CUDA = "signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg"
OF_TOOLKIT = "signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
SYSTEMS = {
    "apt": 'ID=ubuntu\nVERSION_ID="22.04"\n',
    "dnf": 'ID=rhel\nVERSION_ID="9.4"\n',
    "zypper": 'ID=opensuse-leap\nVERSION_ID="15.6"\n',
}
FOLDERS = {"apt": "etc/apt/sources.list.d", "dnf": "etc/yum.repos.d", "zypper": "etc/zypp/repos.d"}


class Broken(NamedTuple):
    """A source of one package manager, and what is said of it."""

    family: str
    file: str
    text: str
    says: str


def section(address: str, key: str) -> str:
    return f"[cuda]\nname=cuda\nenabled=1\ngpgcheck=1\nbaseurl={address}\ngpgkey={key}\n"


SWITCHED_OFF = {
    "suite of a flat repository": Broken(
        "apt", "cuda.list", f"deb [{OF_CUDA}] {CUDA}/ubuntu2204/x86_64 jammy main\n", "its suite is jammy"
    ),
    "suite of the toolkit's": Broken(
        "apt", "container.list", f"deb [{OF_TOOLKIT}] {TOOLKIT}/deb/amd64 jammy main\n", "its suite is jammy"
    ),
    "suite in a stanza": Broken(
        "apt",
        "cuda.sources",
        f"Types: deb\nURIs: {CUDA}/ubuntu2204/x86_64/\nSuites: jammy\nComponents: main\nSigned-By:"
        " /usr/share/keyrings/cuda-archive-keyring.gpg\n",
        "its suite is jammy",
    ),
    "variable of a shell": Broken(
        "apt", "cuda.list", f"deb [{OF_CUDA}] {CUDA}/ubuntu2204/${{ARCH}} /\n", "apt replaces only $(ARCH)"
    ),
    "variable without brackets": Broken(
        "apt", "container.list", f"deb [{OF_TOOLKIT}] {TOOLKIT}/deb/$ARCH /\n", "apt replaces only $(ARCH)"
    ),
    "missing key": Broken(
        "apt", "cuda.list", f"deb [signed-by=/usr/share/keyrings/x.gpg] {CUDA}/ubuntu2204/x86_64/ /\n", "does not exist"
    ),
    "no key": Broken("apt", "cuda.list", f"deb {CUDA}/ubuntu2204/x86_64/ /\n", "no key is set for it"),
    "two keys": Broken(
        "apt",
        "cuda.list",
        f"deb [{OF_CUDA}] {CUDA}/ubuntu2204/x86_64/ /\ndeb [{OF_TOOLKIT}] {CUDA}/ubuntu2204/x86_64/ /\n",
        "Conflicting values set for option Signed-By",
    ),
    "variable of a shell, dnf": Broken(
        "dnf",
        "container.repo",
        section(f"{TOOLKIT}/rpm/$distribution", f"{TOOLKIT}/gpgkey"),
        "knows no such variable",
    ),
    "missing key, dnf": Broken(
        "dnf", "cuda.repo", section(f"{CUDA}/rhel9/x86_64", "file:///etc/pki/none"), "does not exist"
    ),
    "other system, dnf": Broken("dnf", "cuda.repo", section(f"{CUDA}/rhel8/x86_64", f"{CUDA}/x.pub"), "for rhel8"),
    "variable of a shell, zypper": Broken(
        "zypper",
        "container.repo",
        section(f"{TOOLKIT}/rpm/${{distribution}}", f"{TOOLKIT}/gpgkey"),
        "knows no such variable",
    ),
    "missing key, zypper": Broken(
        "zypper", "cuda.repo", section(f"{CUDA}/opensuse15/x86_64", "file:///etc/pki/none"), "does not exist"
    ),
    "other system, zypper": Broken(
        "zypper", "cuda.repo", section(f"{CUDA}/sles12/x86_64", f"{CUDA}/x.pub"), "for sles12"
    ),
}

REFUSED = {
    "no suite": Broken("apt", "cuda.list", f"deb [{OF_CUDA}] {CUDA}/ubuntu2204/x86_64\n", "it has no suite"),
    "suite alone": Broken("apt", "cuda.list", f"deb [{OF_CUDA}] {CUDA}/ubuntu2204/x86_64 jammy\n", "must follow"),
    "stanza without suites": Broken(
        "apt", "cuda.sources", f"Types: deb\nURIs: {CUDA}/ubuntu2204/x86_64/\n", "it has no Suites"
    ),
    "a saved page": Broken("apt", "container.list", "<!doctype html>\n", "neither deb nor deb-src"),
    "somebody else's": Broken("apt", "other.list", "deb https://deb.example/x\n", "it has no suite"),
    "no address, dnf": Broken(
        "dnf", "cuda.repo", "[cuda]\nname=cuda\nenabled=1\n", "Cannot find a valid baseurl for repo"
    ),
}


def host_with(root: Path, one: Broken) -> Host:
    keys = ("cuda-archive-keyring", "nvidia-container-toolkit-keyring")
    files = {
        "etc/os-release": SYSTEMS[one.family],
        "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
        "proc/sys/kernel/arch": "x86_64\n",
        "usr/bin/true": "",
        f"{FOLDERS[one.family]}/{one.file}": one.text,
        **{f"usr/share/keyrings/{name}.gpg": "key" for name in keys},
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return detect(root, matrix())


def plan_for(host: Host, one: Broken) -> Plan:
    name = "container-toolkit" if one.file.startswith("container") else "cuda"
    request = Request(requirements=(parse_requirement(name),))
    return build(host, request, resolve(matrix(), host, request), matrix())


@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_what_cannot_be_used_is_off_before_the_package_manager_is_asked(name: str, tmp_path: Path) -> None:
    one = SWITCHED_OFF[name]
    host = host_with(tmp_path, one)
    assert any(one.says in problem.message for problem in host.problems), [found.message for found in host.problems]
    made = plan_for(host, one)
    steps = [number for number, step in enumerate(made.steps) if step.title.startswith("disable the entry for ")]
    asked = [number for number, step in enumerate(made.steps) if step.kind in {"refresh-index", "install-packages"}]
    assert steps
    assert max(steps) < min(asked)
    path = tmp_path / FOLDERS[one.family] / one.file
    for argv in (argv for number in steps for argv in made.steps[number].commands):
        subprocess.run([word.replace(f"/{FOLDERS[one.family]}", str(path.parent)) for word in argv], check=True)
    left = path.read_text() if path.exists() else ""
    assert not [line for line in left.splitlines() if not line.startswith("#")]
    if name != "two keys":
        assert [step for step in made.steps if step.kind == "add-repository"]


@pytest.mark.parametrize("name", REFUSED)
def test_where_the_package_manager_reads_nothing_nothing_is_planned(name: str, tmp_path: Path) -> None:
    one = REFUSED[name]
    with pytest.raises(UnsupportedError) as caught:
        plan_for(host_with(tmp_path, one), one)
    assert one.says in caught.value.message
    assert one.file in (caught.value.hint or "")


def test_a_source_in_order_is_used(tmp_path: Path) -> None:
    one = Broken("apt", "container.list", f"deb [{OF_TOOLKIT}] {TOOLKIT}/deb/$(ARCH) /\n", "")
    titles = [step.title for step in plan_for(host_with(tmp_path, one), one).steps]
    assert "the NVIDIA repository container-toolkit is already set up" in titles


@pytest.mark.parametrize(
    ("family", "text", "says"),
    [
        ("dnf", "<html>\n404\n</html>\n", "/etc/yum.repos.d/cuda.repo has no [section]: it names no repository"),
        ("zypper", "<html>\n404\n</html>\n", "/etc/zypp/repos.d/cuda.repo has no [section]: it names no repository"),
        (
            "zypper",
            "[cuda]\nenabled=1\n",
            "/etc/zypp/repos.d/cuda.repo has no address (baseurl) for the repository cuda: it names no repository",
        ),
    ],
)
def test_a_file_without_a_repository_is_named(family: str, text: str, says: str, tmp_path: Path) -> None:
    host = host_with(tmp_path, Broken(family, "cuda.repo", text, says))
    assert [problem.message for problem in host.problems if problem.id == "detect-source-unusable"] == [says]


@pytest.mark.parametrize("text", ["", "# off\n", "[cuda]\nenabled=0\n", "[cuda]\nenabled=1\nmirrorlist=https://m/l\n"])
def test_a_file_that_names_none_on_purpose_is_not(text: str, tmp_path: Path) -> None:
    host = host_with(tmp_path, Broken("dnf", "cuda.repo", text, ""))
    assert not [problem for problem in host.problems if problem.id.startswith("detect-source")]
