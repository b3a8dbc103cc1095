"""The package index of the user's pip, from variables and files as pip reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.system.pip_settings import address_of, default_index, has_login

HOME = Path("/home/one")
SYSTEM, USER = "/etc/pip.conf", "/home/one/.config/pip/pip.conf"


def setting(section: str, host: str, name: str = "index-url") -> str:
    return f"[{section}]\n{name} = https://{host}.example/simple\n"


FOUND = [
    ({}, {}, ""),
    ({"PIP_INDEX_URL": "https://variable.example/simple/"}, {USER: setting("global", "user")}, "variable"),
    ({}, {SYSTEM: setting("global", "system"), USER: setting("global", "user")}, "user"),
    ({}, {SYSTEM: setting("install", "system"), USER: setting("global", "user")}, "system"),
    ({}, {USER: setting("global", "user", "index_url")}, "user"),
    ({}, {"/home/one/.pip/pip.conf": setting("global", "old")}, "old"),
    ({"XDG_CONFIG_HOME": "/cfg"}, {"/cfg/pip/pip.conf": setting("global", "cfg")}, "cfg"),
    ({"XDG_CONFIG_DIRS": "/one:/two"}, {"/two/pip/pip.conf": setting("global", "two")}, "two"),
    (
        {"VIRTUAL_ENV": "/srv/env"},
        {USER: setting("global", "user"), "/srv/env/pip.conf": setting("global", "env")},
        "env",
    ),
    (
        {"PIP_CONFIG_FILE": "/own.conf"},
        {"/own.conf": setting("global", "own"), USER: setting("global", "user")},
        "own",
    ),
    ({"PIP_CONFIG_FILE": os.devnull}, {USER: setting("global", "user")}, ""),
    ({}, {USER: "no section\n", SYSTEM: setting("global", "system")}, "system"),
    ({}, {USER: setting("download", "other")}, ""),
    ({}, {USER: "[global]\nindex-url = two words\n"}, ""),
]


@pytest.mark.parametrize(("environment", "files", "host"), FOUND)
def test_the_index_is_found_where_pip_finds_it(environment: dict[str, str], files: dict[str, str], host: str) -> None:
    def read(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    assert default_index(environment, HOME, read) == (f"https://{host}.example/simple" if host else "")


@pytest.mark.parametrize("is_named", [False, True])
def test_pip_itself_agrees(tmp_path: Path, is_named: bool) -> None:
    """The section of a command wins over the general one; a named file replaces the user's."""
    named, user = tmp_path / "named.conf", tmp_path / ".config" / "pip" / "pip.conf"
    user.parent.mkdir(parents=True)
    user.write_text(setting("install", "user") + setting("global", "other"))
    named.write_text(setting("global", "named"))
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    if is_named:
        environment["PIP_CONFIG_FILE"] = str(named)
    expected = f"https://{'named' if is_named else 'user'}.example/simple"
    assert default_index(environment, tmp_path) == expected
    command = [sys.executable, "-m", "pip", "install", "--help"]
    wide = {**environment, "COLUMNS": "1000"}
    told = subprocess.run(command, env=wide, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"(default {expected})" in " ".join(told.split())


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://name:secret@index.example/simple/", "https://index.example/simple"),
        ("file:///srv/index", "file:///srv/index"),
        ("http://[fd00::1]:3141/root/simple", "http://[fd00::1]:3141/root/simple"),
        ("index.example/simple", ""),
        ('https://index.example/"; rm', ""),
        ("--extra", ""),
        ("", ""),
    ],
)
def test_an_address_is_plain(given: str, address: str) -> None:
    assert address_of(given) == address


def test_a_login_is_seen() -> None:
    assert has_login("https://name:secret@index.example/simple")
    assert not has_login("https://index.example/@scope/simple")
