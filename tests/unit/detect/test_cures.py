"""What cures a state is said as the commands of this host, and those commands do what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpustack.detect.api import detect
from gpustack.matrix.index import Matrix, load_matrix

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def fixes(root: Path, matrix: Matrix) -> dict[str, str]:
    return {problem.id: problem.fix for problem in detect(root, matrix).problems}


UBUNTU = {"etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\n', "proc/sys/kernel/arch": "x86_64\n"}
CUDA = (
    "deb [signed-by=/usr/share/keyrings/c.gpg] https://developer.download.nvidia.com/compute/cuda/repos/{}/x86_64/ /\n"
)


def test_no_cure_has_a_place_to_fill_in(matrix: Matrix) -> None:
    for path in sorted(FIXTURES.iterdir()):
        root = path if (path / "evidence.json").is_file() else path / "root"
        for identity, text in fixes(root, matrix).items():
            assert not re.search(r"<[a-z]+>|\{[a-z_]+\}", text), (path.name, identity, text)
            for words in re.findall(r"`([^`]+)`", text):
                assert shlex.split(words), (path.name, identity)


SHOWN = ("fix", "says", "action", "no_repo")
"""Fields of facts that are printed as they stand."""

UNFINISHED = re.compile(r"\{[a-z_]+\}|<[a-z]+>|\bKEY\b|say so|see the table|leave to|TODO|\?\?")


def test_no_row_that_is_printed_is_a_note_to_its_authors(matrix: Matrix) -> None:
    found = [
        (subject, table, text)
        for subject in matrix.subjects
        for table in matrix.tables(subject)
        for row in matrix.rows(subject, table, dict)
        for field in SHOWN
        for text in (row[field] if isinstance(row.get(field), list) else [row.get(field)])
        if isinstance(text, str) and UNFINISHED.search(_filled(row, text) if table in {"phrases", "outputs"} else text)
    ]
    assert found == []


def _filled(row: dict[str, Any], text: str) -> str:
    """A sentence of the phrases with what the groups of its expression find in a line."""
    return text.format(**dict.fromkeys(re.compile(row["like"]).groupindex, "it"))


def test_a_source_gets_the_architecture_by_the_command_that_is_told(matrix: Matrix, tmp_path: Path) -> None:
    name = "etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list"
    other = "deb http://deb.example/ noble main\n"
    bare = CUDA.format("ubuntu2404").replace("[signed-by=/usr/share/keyrings/c.gpg] ", "")
    root = tree(
        tmp_path, {**UBUNTU, "var/lib/dpkg/arch": "amd64\ni386\n", name: other + CUDA.format("ubuntu2404") + bare}
    )
    told = re.findall(r"`sudo ([^`]+)`", fixes(root, matrix)["foreign_architecture_404"])[0]
    subprocess.run([word.replace("/etc/apt", f"{root}/etc/apt") for word in shlex.split(told)], check=True)
    lines = (root / name).read_text().splitlines()
    assert lines[0] == other.strip()
    assert lines[1].startswith("deb [arch=amd64 signed-by=/usr/share/keyrings/c.gpg] https://developer")
    assert lines[2].startswith("deb [arch=amd64] https://developer")
    assert "foreign_architecture_404" not in fixes(root, matrix)


def test_a_source_of_another_release_goes_with_its_keyring(matrix: Matrix, tmp_path: Path) -> None:
    status = "Package: cuda-keyring\nStatus: install ok installed\nVersion: 1.1-1\nArchitecture: all\n\n"
    name = "etc/apt/sources.list.d/cuda-ubuntu2204-x86_64.list"
    root = tree(tmp_path, {**UBUNTU, "var/lib/dpkg/status": status, name: CUDA.format("ubuntu2204")})
    assert fixes(root, matrix)["distro_upgraded"] == (
        f"`sudo apt-get purge cuda-keyring`, `sudo rm -f -- /{name}`, then `gpustack plan cuda` sets up ubuntu2404"
    )


def test_packages_of_the_other_origin_are_named(matrix: Matrix) -> None:
    text = fixes(FIXTURES / "r10-mixed-origins/root", matrix)["ubuntu_archive_vs_nvidia_repo"]
    assert "for NVIDIA's `sudo apt-get purge nvidia-utils-580-server`" in text
    assert "for Ubuntu's `sudo apt-get purge libnvidia-compute-580 nvidia-driver-580`" in text


def test_the_retired_key_goes_by_the_file_that_holds_it(matrix: Matrix) -> None:
    text = fixes(FIXTURES / "r1-old-key/root", matrix)["old_key_7fa2af80"]
    assert text.startswith("`sudo rm -- /etc/apt/trusted.gpg.d/7fa2af80.pub`, then `gpustack plan cuda`")


def test_no_cure_deletes_a_file_with_sources_of_others(matrix: Matrix, tmp_path: Path) -> None:
    """The archive's own list, and a list with another vendor in it, lose NVIDIA's lines only."""
    other = "deb http://deb.example/ noble main\n"
    lists = ("etc/apt/sources.list", "etc/apt/sources.list.d/mixed.list")
    root = tree(tmp_path, {**UBUNTU, **dict.fromkeys(lists, other + CUDA.format("debian12"))})
    told = " ".join(problem.fix for problem in detect(root, matrix).problems)
    assert "`sudo rm" not in told
    for command in re.findall(r"`sudo (sed [^`]+)`", told):
        words = [word.replace("/etc/apt", f"{root}/etc/apt") for word in shlex.split(command)]
        subprocess.run(words, check=True)
    for name in lists:
        assert (root / name).read_text() == other + "# " + CUDA.format("debian12")
