"""Wrong usage: exit 2 or 4, one clear sentence, the nearest valid name, nothing executed and nothing created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

UBUNTU = ("--os", "ubuntu24.04", "--gpu", "L4")

WRONG = [
    (("pln",), 2, "plan"),
    (("plan", "--formt", "json"), 2, "--format"),
    (("plan", "--policy", "newst"), 2, "newest"),
    (("plan", "--kernel-module", "closed"), 2, "proprietary"),
    (("plan", "--color", "pink"), 2, "always"),
    (("plan", "cuda", *UBUNTU, "--format", "jsn"), 2, "json"),
    (("plan", "cuda", *UBUNTU, "--format", "JSON"), 2, "json"),
    (("plan", "cuda", *UBUNTU, "--method", "netwrk"), 2, "network"),
    (("plan", "cuda", *UBUNTU, "--method", "cudn=tar"), 2, "cudnn"),
    (("plan", "cuda", *UBUNTU, "--method", "cuda=zap"), 2, "zip"),
    (("plan", "cuda", *UBUNTU, "--method", "tar", "--method", "pip"), 2, "two methods"),
    (("plan", "cuda", *UBUNTU, "--method", ""), 2, "known are network"),
    (("plan", "cuda", *UBUNTU, "--target", "moon"), 2, "moon"),
    (("plan", "cuda", *UBUNTU, "--target", ""), 2, "--target"),
    (("plan", "qda", *UBUNTU), 2, "did you mean cuda"),
    (("plan", "cuda", "--os", "macos15"), 4, "Linux and Windows"),
    (("plan", "cuda==11.8.*", "cuda==12.4.*", *UBUNTU), 3, "--format modules --prefix DIR"),
    (("plan", "cudann>=9", *UBUNTU), 2, "cudnn"),
    (("plan", "nvidia", *UBUNTU), 2, "driver"),
    (("check", "mig", *UBUNTU), 2, "--mig"),
    (("check", "deepstream==7.1", *UBUNTU), 2, "--image nvcr.io/nvidia/deepstream"),
    (("check", "cupy==13.3.0", *UBUNTU), 2, "cupy-cuda12x"),
    (("plan", "cuda=12.4", *UBUNTU), 2, "cuda==12.4.*"),
    (("plan", "cuda 12.4", *UBUNTU), 2, "write cuda==12.4, or cuda==12.4.*"),
    (("plan", "cuda>12.4<13", *UBUNTU), 2, "cuda"),
    (("plan", "cuda==", *UBUNTU), 2, "cuda"),
    (("plan", "cuda===12.4", *UBUNTU), 2, "cuda"),
    (("plan", "cuda==1!12.4", *UBUNTU), 2, "cuda"),
    (("plan", "cuda==13.*.1", *UBUNTU), 2, "cuda"),
    (("plan", "cuda[dev]==12.4", *UBUNTU), 2, "cuda"),
    (("plan", "cuda==latest", *UBUNTU), 2, "cuda"),
    (("plan", "cuda~=12", *UBUNTU), 2, "cuda"),
    (("plan", "cuda==\uff11\uff12", *UBUNTU), 2, "cuda"),
    (("plan", "", *UBUNTU), 2, "requirement"),
    (("plan", "cuda", "--os", "ubuntu"), 4, "24.04"),
    (("plan", "cuda", "--os", "ubuntu99.04"), 4, "24.04"),
    (("plan", "cuda", "--os", "ubunut24.04"), 4, "ubuntu24.04"),
    (("plan", "cuda", "--os", "temple-os1"), 4, "temple-os1"),
    (("plan", "cuda", "--os", ""), 2, "--os"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--arch", "sparc"), 2, "x86_64"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--arch", ""), 2, "x86_64"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "H2000"), 2, "H200"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "RTX 4091"), 2, "RTX 4090"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "cc:9.9"), 2, "9.0"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "cc:hopper"), 2, "9.0"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "10de:zzzz"), 2, "10de"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "1002:744c"), 2, "1002"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--gpu", ""), 2, "--gpu"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--driver", "newest"), 2, "580.95.05"),
    (("plan", "cuda", "--driver", "new"), 2, "580.95.05"),
    (("check", "cuda==12.4.1", "--os", "ubuntu24.04", "--kernel", "new"), 2, "6.17.0-8-generic"),
    (("check", "cuda==12.4.1", "--os", "ubuntu24.04", "--gcc", "latest"), 2, "14.2"),
    (("check", "cuda==12.4.1", "--os", "ubuntu24.04", "--clang", "latest"), 2, "--clang"),
    (("check", "cuda==12.4.1", "--os", "windows11", "--msvc", "VS2022"), 2, "19.44"),
    (("check", "cuda==12.4.1", "--os", "ubuntu24.04", "--glibc", "2,41"), 2, "2.41"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--python", "py312"), 2, "3.12"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--secure-boot", "perhaps"), 2, "on"),
    (("plan", "cuda", "--os", "ubuntu24.04", "--environment", "cloud"), 2, "container"),
    (("plan", "cuda", "--arch", "aarch64"), 2, "--os"),
    (("plan", "cuda", "--root", "/", "--os", "ubuntu24.04"), 2, "--root and --os"),
    (("plan", "cuda", "--host", "h.json", "--os", "ubuntu24.04"), 2, "--host and --os"),
    (("plan", "cuda", "--host", "h.json", "--root", "/"), 2, "--root and --host"),
    (("plan", "cuda", "--host", "h.json", "--gpu", "H200"), 2, "h.json"),
    (("plan", "cuda", "--root", "/nowhere/at/all"), 2, "/nowhere/at/all"),
    (("detect", "--python", "/nowhere/bin/python"), 2, "/nowhere/bin/python"),
    (("detect", "--python", "/etc/hostname"), 2, "no Python interpreter"),
    (("verify", "torch", "--python", "x" * 5000), 2, "--python"),
    (("check",), 2, "gpustack check cuda==13.0.2, or --image NAME"),
    (("check", "cuda==12.4", "qda==1"), 2, "cuda"),
    (("check", "cuda==12.4", "--format", "yaml"), 2, "json"),
    (("explain", "cuda", "--format", "table"), 2, "text"),
    (("render",), 2, "PLAN.json"),
    (("render", "nowhere.json"), 2, "nowhere.json"),
    (("render", "nowhere.json", "--format", "shel"), 2, "shell"),
    (("install", "nowhere.json", "--dry-run"), 2, "nowhere.json"),
    (("verify", "cudann"), 2, "cudnn"),
    (("verify", "--level", "qick"), 2, "quick"),
    (("verify", "--format", "junt"), 2, "junit"),
    (("verify", "--host", "nowhere.json"), 2, "nowhere.json"),
    (("matrix",), 2, "ACTION"),
    (("matrix", "lst"), 2, "list"),
    (("matrix", "show"), 2, "cuda==13.0.2"),
    (("matrix", "show", "cudaa"), 2, "cuda"),
    (("matrix", "show", "cuda.relases"), 2, "releases"),
    (("matrix", "show", "cuda/nowhere"), 2, "sources"),
    (("matrix", "show", "nowhere/page"), 2, "nowhere"),
    (("matrix", "show", "cuda==77.0"), 2, "cuda"),
    (("matrix", "sources", "cudaa"), 2, "cuda"),
    (("matrix", "list", "--format", "yaml"), 2, "json"),
    (("schema", "hots"), 2, "host"),
    (("detect", "--format", "yaml"), 2, "json"),
    (("detect", "--root", "/nowhere/at/all"), 2, "/nowhere/at/all"),
]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that has to stay empty."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(("arguments", "code", "word"), WRONG, ids=[" ".join(case[0]) for case in WRONG])
def test_wrong_usage_is_told_with_what_would_be_right(
    arguments: tuple[str, ...], code: int, word: str, call: Callable
) -> None:
    ended = call(*arguments)
    assert ended.is_told(code), ended
    assert word.lower() in ended.err.lower()
    assert len(ended.err) < 2000


HOSTILE = (
    "; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "a | touch pwned",
    "a\ntouch pwned",
    "&& touch pwned #",
    "'\"; touch pwned; \"'",
    "../../../../etc/passwd",
    "%s%n{0}{}{{}}",
    "\x1b[31mred\x07",
    "\u202egnp.exe",
    "\U0001f4a5",
    "\udcff\udcfe",
    "A" * 20000,
    " ",
)

PLACES = {
    "requirement": ("plan", "{}", *UBUNTU),
    "specifier": ("plan", "cuda=={}", *UBUNTU),
    "check": ("check", "cuda=={}", "driver==580.95.05"),
    "os": ("plan", "cuda", "--os", "{}"),
    "os-version": ("plan", "cuda", "--os", "ubuntu24.04{}"),
    "arch": ("plan", "cuda", "--os", "ubuntu24.04", "--arch", "{}"),
    "gpu": ("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "{}"),
    "gpu-id": ("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "10de:{}"),
    "gpu-cc": ("plan", "cuda", "--os", "ubuntu24.04", "--gpu", "cc:{}"),
    "driver": ("plan", "cuda", "--os", "ubuntu24.04", "--driver", "{}"),
    "driver-version": ("plan", "cuda", "--os", "ubuntu24.04", "--driver", "580.95.05{}"),
    "method": ("plan", "cuda", *UBUNTU, "--method", "{}"),
    "method-component": ("plan", "cuda", *UBUNTU, "--method", "{}=tar"),
    "policy": ("plan", "cuda", *UBUNTU, "--policy", "{}"),
    "target": ("plan", "cuda", *UBUNTU, "--target", "{}"),
    "format": ("plan", "cuda", *UBUNTU, "--format", "{}"),
    "host": ("plan", "cuda", "--host", "{}"),
    "file": ("plan", "cuda", *UBUNTU, "--file", "{}"),
    "root": ("plan", "cuda", "--root", "{}"),
    "matrices": ("plan", "cuda", *UBUNTU, "--matrices", "{}"),
    "render": ("render", "{}.json"),
    "install": ("install", "{}.json", "--dry-run"),
    "verify": ("verify", "{}"),
    "level": ("verify", "--level", "{}"),
    "require": ("verify", "--require", "{}"),
    "report": ("verify", "--format", "{}"),
    "subject": ("matrix", "show", "{}"),
    "source": ("matrix", "show", "cuda/{}"),
    "schema": ("schema", "{}"),
    "command": ("{}",),
    "option": ("plan", "--{}"),
}


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("place", PLACES)
def test_no_value_of_any_option_is_executed_or_repeated_raw(place: str, call: Callable) -> None:
    for value in HOSTILE:
        if value == " " and place in {"specifier", "driver-version", "os-version", "check"}:
            continue  # blanks around a version mean nothing
        ended = call(*(part.replace("{}", value) for part in PLACES[place]))
        assert ended.is_told(4 if ended.code == 4 else 2), (value, ended)
        assert "\x1b" not in ended.err
        assert "\u202e" not in ended.err
        assert len(ended.err.splitlines()) <= 6, ended.err


@pytest.mark.usefixtures("empty")
def test_a_component_is_known_in_any_case_and_with_blanks(call: Callable) -> None:
    plain = call("check", "cuda==12.4.1", "driver==580.95.05", "--os", "ubuntu24.04")
    assert call("check", " CUDA == 12.4.1 ", "Driver==580.95.05", "--os", "ubuntu24.04") == plain
