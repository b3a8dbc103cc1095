"""What is installed and fulfils the requirement stays; --upgrade moves it, and a plan says from which version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

HOST = ("--os", "ubuntu24.04", "--gpu", "H100", "--driver", "570.124.06")


def driver(call: Call, *words: str) -> dict[str, Any]:
    """The entry of the driver in the plan's stack."""
    done = call("plan", *words, *HOST, "--format", "json")
    assert done.code == 0, done.err
    entry: dict[str, Any] = json.loads(done.out)["stack"]["driver"]
    return entry


@pytest.mark.parametrize(
    "words", ["driver", "driver>=550", "cuda==12.8.*", "driver --upgrade cuda", "driver --policy newest"]
)
def test_a_driver_that_fits_stays(call: Call, words: str) -> None:
    entry = driver(call, *words.split())
    assert (entry["state"], entry["version"], entry["from"]) == ("keep", "570.124.06", "570.124.06")


@pytest.mark.parametrize(
    "words",
    ["driver --upgrade", "driver --upgrade driver", "driver --upgrade=all", "--upgrade all driver", "driver>=580"],
)
def test_a_driver_is_moved_where_that_is_asked_for(call: Call, words: str) -> None:
    entry = driver(call, *words.split())
    assert (entry["state"], entry["from"]) == ("upgrade", "570.124.06")
    assert int(entry["version"].partition(".")[0]) > 570


def test_what_was_not_there_comes_from_nothing(call: Call) -> None:
    done = call("plan", "cuda==12.8.*", *HOST, "--format", "json")
    assert json.loads(done.out)["stack"]["cuda"]["from"] is None


def test_the_table_shows_both_versions(call: Call) -> None:
    moved = driver(call, "driver", "--upgrade")["version"]
    for form in ("table", "markdown", "shell"):
        assert f"570.124.06 -> {moved}" in call("plan", "driver", "--upgrade", *HOST, "--format", form).out.replace(
            "\\", ""
        )


def test_a_component_that_is_none_is_named(call: Call) -> None:
    done = call("plan", "driver", "--upgrade=cudn", *HOST)
    assert done.code == 2
    assert "'cudn' is not a component" in done.err


def test_a_request_file_may_ask_for_upgrades(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "gpustack.toml"
    path.write_text('[stack]\ndriver = "*"\n[options]\nupgrade = "driver"\n')
    assert driver(call, "--file", str(path))["state"] == "upgrade"


@pytest.mark.parametrize("words", ["driver cuda", "driver>=570 cuda", "driver==570.*"])
def test_in_a_container_the_driver_of_the_host_below_stays(call: Call, words: str) -> None:
    entry = driver(call, *words.split(), "--environment", "container")
    assert (entry["state"], entry["version"], entry["from"]) == ("keep", "570.124.06", "570.124.06")


@pytest.mark.parametrize("words", ["driver>=580", "driver --upgrade", "driver --upgrade driver"])
def test_in_a_container_no_driver_is_installed(call: Call, words: str) -> None:
    done = call("plan", *words.split(), *HOST, "--environment", "container")
    assert done.is_told(4)
    assert "In a container the driver is that of the host below" in done.err
