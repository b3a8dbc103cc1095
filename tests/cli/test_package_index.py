"""--index, and the index of the user's pip, in the formats of Python's installers; and no file names a public one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Call

HOST = ("plan", "torch==2.9.1", "--os", "ubuntu24.04", "--gpu", "L4")
INDEX = "https://index.example/simple"
ROOT = Path(__file__).parents[2]


def test_the_index_of_pip_is_named_unless_another_is_given(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://name:secret@pip.example/simple/")
    assert 'url = "https://pip.example/simple"\ndefault = true' in call(*HOST, "--format", "uv").out
    given = call(*HOST, "--format", "uv", "--index", "https://name:secret@index.example/simple")
    assert f'url = "{INDEX}"' in given.out
    assert "secret" not in given.out
    assert "--index: name and password are not written" in given.err


def test_a_saved_plan_is_rendered_with_an_index(call: Call, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    assert call(*HOST, "--out", str(saved)).code == 0
    assert f"--index-url {INDEX}" in call("render", str(saved), "--format", "requirements", "--index", INDEX).out
    assert "files of each package" not in call("render", str(saved), "--format", "pylock", "--index", INDEX).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--format uv --index index.example", "is no address of a package index"),
        ("--format shell --index https://index.example/simple", "--index is for the formats requirements, uv"),
        ("--index https://index.example/simple", "--index is for the formats requirements, uv"),
    ],
)
def test_an_index_that_cannot_be_named_is_refused(call: Call, words: str, said: str) -> None:
    done = call(*HOST, *words.split())
    assert done.is_told(2), done.err
    assert said in done.err


def test_no_file_names_the_host_of_a_registry() -> None:
    """Every machine has indexes and mirrors of its own: they are read from its settings."""
    hosts = r"(pypi[.]org|pythonhosted[.]org|(deb|security)[.]debian[.]org|registry[.]npmjs[.]org)"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    pattern = re.compile(hosts.encode())
    found = [str(path.relative_to(ROOT)) for path in paths if path.is_file() and pattern.search(path.read_bytes())]
    assert not found
