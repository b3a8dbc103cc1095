"""os-release by its own rules, and the derivatives' traps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpustack.detect.gather import gather
from gpustack.detect.parse.os_release import operating_system, parse_os_release
from gpustack.detect.scene import build_scene
from gpustack.matrix.index import Matrix, load_matrix


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def test_values_may_be_quoted_either_way_or_not_at_all() -> None:
    text = 'A=1\nB="two words"\nC=\'it\'\'s\'\nD="a \\"b\\" \\$c"\n# E=5\nF\n =6\nG="open\nH=\nA=2\n I=9\n'
    assert parse_os_release(text) == {"A": "2", "B": "two words", "C": "it''s", "D": 'a "b" $c', "I": "9"}


@pytest.mark.parametrize(
    ("text", "repo", "base", "family"),
    [
        ("ID=ubuntu\nVERSION_ID=24.04", "ubuntu2404", None, "apt"),
        ("ID=debian\nVERSION_ID=12", "debian12", None, "apt"),
        ("ID=debian\nVERSION_CODENAME=forky", None, None, "apt"),
        (
            "ID=linuxmint\nID_LIKE='ubuntu debian'\nVERSION_ID=22.1\nUBUNTU_CODENAME=noble",
            "ubuntu2404",
            "ubuntu24.04",
            "apt",
        ),
        ("ID=linuxmint\nID_LIKE=debian\nVERSION_ID=6\nDEBIAN_CODENAME=bookworm", "debian12", "debian12", "apt"),
        (
            "ID=pop\nID_LIKE='ubuntu debian'\nVERSION_ID=22.04\nUBUNTU_CODENAME=jammy",
            "ubuntu2204",
            "ubuntu22.04",
            "apt",
        ),
        ("ID=zorin\nID_LIKE='ubuntu debian'\nVERSION_ID=99\nUBUNTU_CODENAME=noble", "ubuntu2404", "ubuntu24.04", "apt"),
        ("ID=newbian\nID_LIKE=debian\nVERSION_ID=1\nVERSION_CODENAME=trixie", "debian13", "debian13", "apt"),
        ("ID=rocky\nID_LIKE='rhel centos fedora'\nVERSION_ID=9.6\nPLATFORM_ID=platform:el9", "rhel9", "rhel9", "dnf"),
        ("ID=ol\nID_LIKE=fedora\nVERSION_ID=9.6\nPLATFORM_ID=platform:el9", "rhel9", "rhel9", "dnf"),
        ("ID=newel\nID_LIKE=fedora\nVERSION_ID=10.1\nPLATFORM_ID=platform:el10", "rhel10", "rhel10", "dnf"),
        ("ID=rhel\nVERSION_ID=7.2", "rhel7", None, "yum"),
        ("ID=amzn\nVERSION_ID=2023\nPLATFORM_ID=platform:al2023", "amzn2023", None, "dnf"),
        ("ID=amzn\nID_LIKE='centos rhel fedora'\nVERSION_ID=2", None, None, "yum"),
        ("ID=mageia\nID_LIKE='mandriva fedora'\nVERSION_ID=9", None, None, "dnf"),
        ("ID=xenenterprise\nID_LIKE='centos rhel fedora'\nVERSION_ID=8.2.0", None, None, None),
        ("ID=openEuler\nVERSION_ID=24.03", None, None, "dnf"),
        ("ID=kylin\nVERSION_ID=V10", "kylin10", None, "dnf"),
        ("ID=sles\nVERSION_ID=15.6", "sles15", None, "zypper"),
        ("ID=opensuse-tumbleweed\nVERSION_ID=20260101", "suse16", None, "zypper"),
        ("ID=azurelinux\nVERSION_ID=3.0", "azl3", None, "tdnf"),
        ("ID=templeos\nVERSION_ID=1", None, None, None),
    ],
)
def test_known_systems_and_derivatives(
    text: str, repo: str | None, base: str | None, family: str | None, matrix: Matrix
) -> None:
    found = operating_system(parse_os_release(text), matrix.systems)
    assert (found.repo, found.base) == (repo, base)
    if family is not None:
        assert found.family == family


def test_desktop_kylin_with_dpkg_has_no_folder(matrix: Matrix) -> None:
    found = operating_system(parse_os_release("ID=kylin\nVERSION_ID=V10"), matrix.systems, manager_hint="apt")
    assert (found.repo, found.family) == (None, "apt")


def test_nothing_is_made_up_from_nothing(matrix: Matrix) -> None:
    found = operating_system({}, matrix.systems)
    assert (found.id, found.version_id, found.repo, found.family) == (None, None, None, None)


@pytest.mark.parametrize(
    ("files", "told", "system"),
    [
        (
            {"centos-release": "CentOS release 6.10 (Final)\n", "redhat-release": "CentOS release 6.10 (Final)\n"},
            {"ID": "centos", "VERSION_ID": "6.10"},
            "centos6",
        ),
        (
            {"oracle-release": "Oracle Linux Server release 7.9\n"},
            {"ID": "ol", "VERSION_ID": "7.9"},
            "ol7",
        ),
        ({"slackware-version": "Slackware 14.2\n"}, {"ID": "slackware", "VERSION_ID": "14.2"}, "slackware"),
        ({"motd": "Welcome\n"}, {}, None),
    ],
    ids=["centos6", "oracle", "slackware", "nothing"],
)
def test_a_system_without_os_release_is_known_by_its_release_files(
    files: dict[str, str], told: dict[str, str], system: str | None, matrix: Matrix, tmp_path: Path
) -> None:
    (tmp_path / "etc").mkdir()
    for name, text in files.items():
        (tmp_path / "etc" / name).write_text(text)
    scene = build_scene(gather(tmp_path), matrix)
    assert {key: value for key, value in scene.told.items() if key in {"ID", "VERSION_ID"}} == told
    assert (scene.system.key if scene.system else None) == system


def test_a_release_file_that_is_a_pipe_or_leads_outside_is_not_read(matrix: Matrix, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("CentOS release 6.10 (Final)\n")
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "centos-release").symlink_to(outside)
    os.mkfifo(tmp_path / "root" / "etc" / "redhat-release")
    assert build_scene(gather(tmp_path / "root"), matrix).told == {}
