"""What is given of a host on the command line decides, whether the host is described, in a document, or this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LINUX = ("--os", "ubuntu24.04", "--arch", "x86_64", "--gpu", "L4")
WINDOWS = ("--os", "windows11", "--arch", "x86_64", "--gpu", "RTX 4090")


def answer(call: Callable, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(call("check", *words, "--format", "json").out)
    return document


@pytest.mark.parametrize(
    ("host", "asked", "fits", "breaks", "said"),
    [
        (WINDOWS, "cuda==12.3.2", ("--msvc", "19.39"), ("--msvc", "19.40"), "_MSC_VER"),
        (WINDOWS, "cuda==13.1.1", ("--msvc", "1944"), ("--msvc", "19.50.1"), "_MSC_VER"),
        (LINUX, "cuda==13.0.2", ("--clang", "20"), ("--clang", "21.1"), "clang 7 to 20"),
        (LINUX, "cuda==12.5.1", ("--gcc", "13.3"), ("--gcc", "14.2"), "gcc 6 to 13"),
        (LINUX, "driver==580.119.02", ("--kernel", "6.8.0-31-generic"), ("--kernel", "7.0.0-31-generic"), "build"),
        (LINUX, "cuda==12.9.1", ("--glibc", "2.40"), ("--glibc", "2.41"), "glibc 2.41"),
    ],
)
def test_a_compiler_kernel_or_library_that_is_given_is_judged(
    host: tuple[str, ...], asked: str, fits: tuple[str, ...], breaks: tuple[str, ...], said: str, call: Callable
) -> None:
    good, bad = answer(call, asked, *host, *fits), answer(call, asked, *host, *breaks)
    assert good["verdict"] == "compatible"
    assert not good["warnings"]
    assert bad["verdict"] == "incompatible"
    assert any(said in conflict["reason"] for conflict in bad["conflicts"])
    for document in (good, bad):
        assert fits[0] not in {one["option"] for one in (*document["not_judged"], *document["assumed"])}


def test_a_c_library_too_old_is_a_conflict(call: Callable) -> None:
    assert answer(call, "cudnn==9.8.0", *LINUX, "--glibc", "2.17")["verdict"] == "incompatible"


def test_a_default_of_the_system_is_named(call: Callable) -> None:
    document = answer(call, "cuda==12.5.1", "--os", "debian13", "--gpu", "L4")
    assert {"property": "gcc", "value": "14.2.0", "system": "Debian 13", "option": "--gcc"} in document["assumed"]
    text = call("check", "cuda==12.5.1", "--os", "debian13", "--gpu", "L4").out
    assert "for GCC 14.2.0, the default of Debian 13" in text.splitlines()


def test_what_is_not_judged_is_one_line_for_each_property(call: Callable) -> None:
    lines = call("check", "cuda==12.8.1", "--os", "ubuntu24.04").out.splitlines()
    told = [line for line in lines if line.startswith("not judged: ")]
    assert [line.split(" is unknown")[0] for line in told] == [
        "not judged: Clang",
        "not judged: compute capability",
    ]
    assert "--clang" in told[0]
    assert "cuda-12-8-0-clang" in told[0]


def test_options_change_a_host_document(call: Callable, tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_text(
        json.dumps(
            {
                "schema": "gpustack/host/v1",
                "os": {"id": "ubuntu", "version_id": "24.04", "family": "apt", "name": "Ubuntu 24.04"},
                "arch": "x86_64",
                "environment": "bare-metal",
                "gcc": "13.3.0",
                "glibc": "2.39",
            }
        ),
        encoding="utf-8",
    )
    host = ("--host", str(path))
    assert answer(call, "cuda==13.0.2", *host)["warnings"] == []
    assert answer(call, "cuda==13.0.2", *host, "--gcc", "16")["verdict"] == "incompatible"
    refused = answer(call, "driver==590.48.01", *host, "--gpu", "GTX 1080")
    assert refused["verdict"] == "incompatible"
    assert answer(call, "cuda==13.0.2", *host, "--driver", "535.104.05")["verdict"] == "incompatible"


def test_options_change_this_machine(call: Callable) -> None:
    assert answer(call, "cuda==13.0.2", "--gpu", "GTX 1080", "--environment", "bare-metal")["verdict"] == "incompatible"
    assert answer(call, "cuda==13.0.2", "--gpu", "L4", "--clang", "25")["verdict"] == "incompatible"


def test_a_request_file_takes_them(call: Callable, tmp_path: Path) -> None:
    file = tmp_path / "gpustack.toml"
    file.write_text(
        '[stack]\ndriver = "==580.119.02"\n[options]\nos = "ubuntu24.04"\ngpu = ["L4"]\nkernel = "7.0.0-31-generic"\n'
        'secure-boot = "on"\nenvironment = "vm"\nmethod = ["runfile"]\n',
        encoding="utf-8",
    )
    ended = call("explain", "--file", str(file), "--format", "json")
    assert ended.code == 3
    assert "kernel 7.0.0" in ended.err


def test_an_answer_about_a_detected_host_names_it_and_what_is_installed(tmp_path: Path, call: Callable) -> None:
    described = json.loads(call("detect", "--root", str(tmp_path), "--format", "json").out)
    described["installed"] = {"cuda": {"version": "12.4.1", "method": "network", "path": "/usr/local/cuda-12.4"}}
    saved = tmp_path / "host.json"
    saved.write_text(json.dumps(described), encoding="utf-8")
    assert answer(call, "cudnn==9.1.0", "--host", str(saved))["judged_for"].endswith("with cuda 12.4.1 installed")
    assert str(saved) in call("check", "cudnn==9.1.0", "--host", str(saved)).out
    assert "judged_for" not in answer(call, "cudnn==9.1.0", *LINUX)


def test_in_a_container_the_cause_names_the_driver_of_the_host_below(call: Callable) -> None:
    ended = call("plan", "driver", "cuda==13.0.2", *LINUX, "--environment", "container", "--driver", "535.183.01")
    assert ended.code == 3
    assert "In a container the driver is that of the host below, here 535.183.01" in ended.err


def test_a_bug_report_is_a_host(call: Callable) -> None:
    report = Path(__file__).parents[1] / "fixtures" / "bug-reports" / "api-mismatch.log"
    done = call("plan", "driver", "--root", str(report), "--format", "json")
    assert done.code == 0, done.err
    host = json.loads(done.out)["host"]
    assert (host["os"]["version_id"], host["gpus"][0]["name"]) == ("22.04", "GeForce RTX 2080 Ti")
