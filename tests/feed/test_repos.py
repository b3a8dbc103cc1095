"""What a host's own package repositories offer: from apt, dnf and zypper lists, and from no list that nobody verified."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.cli import main
from gpustack.install.root import InstallRoot
from gpustack.install.supply.offered import Offer, Unread, offers
from gpustack.install.supply.site import site_of
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host, OperatingSystem
from gpustack.solve.rows import HostRows

UBUNTU = "ID=ubuntu\nVERSION_ID=24.04\nNAME=Ubuntu\nVERSION_CODENAME=noble\n"
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\nNAME="Rocky Linux"\n'
SUSE = 'ID="sles"\nVERSION_ID="15.6"\nNAME="SLES"\n'
NVIDIA = "developer.download.nvidia.com_compute_cuda_repos_ubuntu2404_x86%5f64"
MIRROR = "mirror.example.com_nvidia_ubuntu2404_x86%5f64"
WHOLE = {"driver": "580.95.05", "cuda": "13.0.2"}
"""What the mirror has: an older state than the facts know."""


def host(text: str) -> Host:
    known = {
        UBUNTU: OperatingSystem(id="ubuntu", version_id="24.04", family="apt", repo="ubuntu2404"),
        ROCKY: OperatingSystem(id="rocky", version_id="9.4", family="dnf", repo="rhel9"),
        SUSE: OperatingSystem(id="sles", version_id="15.6", family="zypper", repo="sles15"),
    }
    return Host(os=known[text], arch="x86_64", environment="bare-metal")


def packages(text: str, **more: str) -> dict[str, str]:
    """The packages of WHOLE as the facts name them, and ``more``."""
    rows = HostRows(load_matrix(), host(text))
    found = {}
    for component, release in WHOLE.items():
        from gpustack.versions import is_within

        for row in rows.packages(component, "network"):
            if row.role == "main" and is_within(release, row.versions):
                pin = row.pin.replace("{version}", release).replace("*", "0.1") or f"{release}-1"
                found |= dict.fromkeys(row.packages, pin)
    return {**found, **{name.replace("_", "-"): version for name, version in more.items()}}


class Tree:
    """A root file system with the lists that its package manager has read."""

    def __init__(self, path: Path, release: str) -> None:
        self.path = path
        self.write("etc/os-release", release)
        self.write("usr/lib/os-release", release)
        self.write("var/lib/dpkg/arch", "amd64\n")

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def apt(self, stem: str, versions: dict[str, str], *, is_signed: bool = True, digest: str = "") -> None:
        text = "".join(f"Package: {name}\nArchitecture: amd64\nVersion: {one}\n\n" for name, one in versions.items())
        digest = digest or hashlib.sha256(text.encode()).hexdigest()
        release = f"Origin: NVIDIA\nSHA256:\n {digest} {len(text)} Packages\n"
        self.write(f"var/lib/apt/lists/{stem}_Packages", text)
        if is_signed:
            self.write(f"var/lib/apt/lists/{stem}_InRelease", f"-----BEGIN PGP SIGNED MESSAGE-----\n\n{release}")

    def rpm(self, cache: str, settings: str, name: str, base: str, versions: dict[str, str], check: str = "1") -> None:
        entries = "".join(
            f'<package type="rpm"><name>{one}</name><arch>x86_64</arch>'
            f'<version epoch="0" ver="{full.partition("-")[0]}" rel="{full.partition("-")[2] or 1}"/></package>'
            for one, full in versions.items()
        )
        content = gzip.compress(f'<metadata packages="9">{entries}</metadata>'.encode())
        self.write(f"{cache}/repodata/0-primary.xml.gz", content)
        self.write(f"{settings}/{name}.repo", f"[{name}]\nbaseurl={base}\nenabled=1\ngpgcheck={check}\n")


Make = Callable[[Path], Tree]


def apt_tree(path: Path) -> Tree:
    tree = Tree(path, UBUNTU)
    tree.apt(NVIDIA, packages(UBUNTU))
    return tree


def dnf_tree(path: Path) -> Tree:
    tree = Tree(path, ROCKY)
    base = "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/$basearch"
    tree.rpm("var/cache/dnf/cuda-rhel9-0123456789abcdef", "etc/yum.repos.d", "cuda-rhel9", base, packages(ROCKY))
    return tree


def zypper_tree(path: Path) -> Tree:
    tree = Tree(path, SUSE)
    base = "https://developer.download.nvidia.com/compute/cuda/repos/sles15/x86_64"
    tree.rpm("var/cache/zypp/raw/cuda-sles15", "etc/zypp/repos.d", "cuda-sles15", base, packages(SUSE))
    return tree


TREES: dict[str, tuple[Make, str]] = {
    "apt": (apt_tree, UBUNTU),
    "dnf": (dnf_tree, ROCKY),
    "zypper": (zypper_tree, SUSE),
}


def found(tree: Tree) -> list[Offer | Unread]:
    return list(offers(InstallRoot(tree.path), "x86_64"))


@pytest.mark.parametrize("name", TREES)
def test_the_lists_of_a_package_manager_say_what_the_site_has(tmp_path: Path, name: str) -> None:
    make, release = TREES[name]
    site = site_of(load_matrix(), host(release), found(make(tmp_path)))
    assert site.newest == WHOLE
    assert (len(site.lists), site.unread, site.unknown) == (1, (), ())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUSTACK_FACTS", str(tmp_path / "facts"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "facts"


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    capsys.readouterr()
    assert main(["plan", "cuda", *words, "--gpu", "L4", "--method", "network", "--format", "json"]) == 0
    return {name: entry["version"] for name, entry in json.loads(capsys.readouterr().out)["stack"].items()}


@pytest.mark.usefixtures("folder")
def test_live_plans_what_the_mirror_has_and_not_what_the_vendor_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path / "tree", UBUNTU)
    tree.apt(MIRROR, packages(UBUNTU))
    words = ("--root", str(tree.path))
    newest = planned(capsys, *words)
    assert planned(capsys, *words, "--live")["cuda"] == WHOLE["cuda"] != newest["cuda"]
    assert planned(capsys, *words) == newest  # nothing was stored


def test_what_was_stored_is_known_to_later_plans_and_shown_by_status(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = apt_tree(tmp_path / "tree")
    assert main(["matrix", "update", "--repos", "--root", str(tree.path)]) == 0
    assert "cuda: up to 13.0.2" in capsys.readouterr().out
    assert planned(capsys, "--os", "ubuntu24.04") == WHOLE
    assert planned(capsys, "--os", "ubuntu22.04") != WHOLE  # another folder
    assert main(["matrix", "status", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["overlays"] == [str(folder / "site")]
    tree.apt(NVIDIA, {})
    (folder / "site" / "site.yaml").unlink()
    assert planned(capsys, "--os", "ubuntu24.04") != WHOLE


def test_a_release_that_no_fact_covers_is_named_and_never_planned(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path / "tree", UBUNTU)
    tree.apt(NVIDIA, packages(UBUNTU, cuda_toolkit_99_1="99.1.0-1"))
    assert main(["matrix", "update", "--repos", "--root", str(tree.path)]) == 0
    assert "not covered by the facts: cuda: cuda-toolkit-99-1 99.1.0-1" in capsys.readouterr().out
    assert planned(capsys, "--os", "ubuntu24.04") == WHOLE
    assert folder.exists()


def unsigned(tree: Tree) -> None:
    tree.apt(NVIDIA, packages(UBUNTU), is_signed=False)


def changed(tree: Tree) -> None:
    tree.apt(NVIDIA, packages(UBUNTU), digest="0" * 64)


def trusted_without_a_check(tree: Tree) -> None:
    tree.apt(NVIDIA, packages(UBUNTU))
    address = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/"
    tree.write("etc/apt/sources.list.d/cuda.list", f"deb [arch=amd64 trusted=yes] {address} /\n")


def release_without_a_signature(tree: Tree) -> None:
    tree.apt(NVIDIA, packages(UBUNTU))
    lists = tree.path / "var/lib/apt/lists"
    (lists / f"{NVIDIA}_InRelease").rename(lists / f"{NVIDIA}_Release")


def damaged(tree: Tree) -> None:
    tree.apt(NVIDIA, packages(UBUNTU))
    lists = tree.path / "var/lib/apt/lists"
    (lists / f"{NVIDIA}_Packages").rename(lists / f"{NVIDIA}_Packages.gz")


@pytest.mark.parametrize("spoil", [unsigned, changed, trusted_without_a_check, release_without_a_signature, damaged])
def test_a_list_that_nobody_verified_does_not_count(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Tree], None]
) -> None:
    tree = Tree(tmp_path / "tree", UBUNTU)
    spoil(tree)
    (one,) = found(tree)
    assert isinstance(one, Unread)
    assert main(["matrix", "update", "--repos", "--root", str(tree.path)]) == 8
    assert NVIDIA in capsys.readouterr().err
    assert not (folder / "site").exists()


@pytest.mark.parametrize("name", ["dnf", "zypper"])
def test_a_repository_that_checks_no_signature_does_not_count(tmp_path: Path, name: str) -> None:
    tree = TREES[name][0](tmp_path)
    for path in tmp_path.glob("etc/*/*repos.d/*.repo"), tmp_path.glob("etc/yum.repos.d/*.repo"):
        for file in path:
            file.write_text(file.read_text().replace("gpgcheck=1", "gpgcheck=0"))
    assert [type(one) for one in found(tree)] == [Unread]


def test_live_is_about_a_host_that_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "cuda", "--os", "ubuntu24.04", "--gpu", "L4", "--live"]) == 2
    assert "--live" in capsys.readouterr().err


def test_the_lists_of_this_machine_are_read_as_apt_has_verified_them() -> None:
    lists = [one for one in offers(InstallRoot(), platform.machine()) if isinstance(one, Offer)]
    if not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        pytest.skip("this machine has no lists of apt: `apt-get update` reads them")
    assert lists
    assert any("libc6" in one.versions for one in lists)
