"""Texts in place of a host: what people paste into threads, and logs of jobs."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.finding_goldens import Findings, named
from tests.reading import cases_in

from gpustack.detect import pasted
from gpustack.detect.api import detect
from gpustack.detect.pasted.lines import _KINDS
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host

FIXTURES = Path(__file__).parents[2] / "fixtures/pasted"
CASES: list[dict[str, Any]] = cases_in(Path(__file__).parents[2] / "cases/pasted-texts.yaml")["texts"]
SENTENCES: list[dict[str, Any]] = cases_in(Path(__file__).parents[2] / "cases/sentences.yaml")["texts"]
NAMED = named("pasted-texts", ({"thread": case["source"], **case} for case in CASES))


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def _host(tmp_path: Path, text: str, matrix: Matrix) -> Host:
    place = tmp_path / "thread.md"
    place.write_text(text, "utf-8")
    return detect(place, matrix)


def _read(host: Host) -> dict[str, Any]:
    packages = {name: version for one in host.environments or () for name, version in one.packages.items()}
    return {
        "environment": host.environment, "system": host.os.name, "kernel": host.kernel, "arch": host.arch, "secure_boot": host.secure_boot,
        "driver": host.installed["driver"].version if "driver" in host.installed else None,
        "cuda": host.installed["cuda"].version if "cuda" in host.installed else None,
        "gpus": [gpu.name for gpu in host.gpus], "packages": packages,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "case"), NAMED, ids=[name for name, _ in NAMED])
def test_a_pasted_text_is_a_host(
    name: str, case: dict[str, Any], tmp_path: Path, matrix: Matrix, findings: Findings
) -> None:
    host = _host(tmp_path, case["text"], matrix)
    findings.compare(name, host.problems)
    said = [f"{one.message} | {one.fix}" for one in host.problems]
    read = _read(host)
    for what, expected in case.get("host", {}).items():
        found = read[what]
        assert (found.items() >= expected.items()) if isinstance(expected, dict) else found == expected, (what, found)
    for words in case.get("tells", ()):
        assert any(all(word in one for word in words) for one in said), (words, said)
    for word in case.get("never", ()):
        assert not any(word in one for one in said), (word, said)


def test_outputs_of_commands_on_an_h100_tell_what_detect_tells_there(matrix: Matrix) -> None:
    """What a container on a real machine answered to the commands that people paste; `detect` said the same of it."""
    host = detect(FIXTURES / "h100.txt", matrix)
    read = _read(host)
    assert (read["system"], read["driver"], read["gpus"]) == ("Ubuntu 24.04 LTS", "580.159.04", ["H100 80GB HBM3"])
    assert host.kernel == "6.18.44-fc-v657-gpu"
    assert host.module is not None
    assert (host.module.version, host.module.flavour, host.module.loaded) == ("580.159.04", "open", True)
    versions = {name: entry.version for name, entry in host.installed.items() if name != "driver"}
    assert versions == {"cuda": "13.0", "cudnn": "9.14.0.64", "nccl": "2.28.3"}
    assert read["packages"].items() >= {"torch": "2.11.0", "torchvision": "0.26.0", "nvidia-cublas": "13.1.0.3"}.items()
    assert [problem.id for problem in host.problems] == ["held_packages"]


def test_what_an_h100_reports_of_itself_is_judged(tmp_path: Path, matrix: Matrix) -> None:
    """nvidia-smi -q of a real machine whose compute mode was set to prohibited, the one field that needs somebody."""
    text = (FIXTURES / "h100-query.txt").read_text("utf-8")
    host = _host(tmp_path, text, matrix)
    assert (host.gpus[0].name, host.gpus[0].memory_mib, _read(host)["driver"]) == (
        "H100 80GB HBM3",
        81559,
        "580.159.04",
    )
    (told,) = host.problems
    assert told.message == (
        "the GPU's compute mode lets no program use CUDA (all CUDA-capable devices are busy or unavailable):"
        " Compute Mode: Prohibited (GPU 00000000:00:06.0)"
    )
    assert told.fix == "`sudo nvidia-smi -c DEFAULT`"
    assert _host(tmp_path, text.replace("Prohibited", "Default"), matrix).problems == ()


def test_every_kind_of_line_stands_in_a_text() -> None:
    lines = [pasted._DECORATION.sub("", line) for case in CASES for line in case["text"].splitlines()]
    seen = {id(next((p for p, _ in _KINDS if p.match(line)), None)) for line in lines}
    assert [pattern.pattern for pattern, _ in _KINDS if id(pattern) not in seen] == []


@pytest.mark.parametrize("case", SENTENCES, ids=[case["text"][:40] for case in SENTENCES])
def test_what_sentences_tell_of_a_host(case: dict[str, Any], tmp_path: Path, matrix: Matrix) -> None:
    read = _read(_host(tmp_path, f"[    5.1] NVRM: loading\n{case['text']}\n", matrix))
    empty = {"system": None, "kernel": None, "driver": None, "gpus": [], "packages": {}, "environment": None}
    assert {what: read[what] for what in empty} == empty | case["host"]


def test_a_text_without_its_driver_or_its_bus_says_so(tmp_path: Path, matrix: Matrix) -> None:
    host = _host(tmp_path, "[ 5.1] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:762)\n", matrix)
    assert host.looked is not None
    assert host.looked.at == ("kernel log",)
    assert {one.why for one in host.looked.not_at} == {"the text has nothing of it"}
    assert [one.id for one in host.problems] == ["detect-kernel-log"]


def test_packed_and_from_standard_input(tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    text = next(case["text"] for case in CASES if "Xid" in case["text"])
    packed = tmp_path / "kern.log.1.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    plain = _host(tmp_path, text, matrix)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert detect(packed, matrix).problems == plain.problems == detect(Path("-"), matrix).problems


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x1f\x8b", b"\x1f\x8bnonsense", b"Linux version 6.8\n" * 9, bytes(range(256)), b"\x7fELF\x02\x00NVRM: x",
        b"Dear all,\nwhich release should I take?\nThanks\n",
    ],
)  # fmt: skip
def test_what_holds_nothing_of_a_gpu_host_is_refused(content: bytes, tmp_path: Path, matrix: Matrix) -> None:
    place = tmp_path / "any"
    place.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        detect(place, matrix)
    if "cannot be read" in refused.value.message:
        assert content.startswith(b"\x1f\x8b")
        return
    assert refused.value.message == f"{str(place)!r} is no folder, and no text with lines about a GPU host"
    assert refused.value.hint == (
        "--root requires the root folder of a file system tree, the report of nvidia-bug-report.sh, or a text"
        " with logs and outputs of commands"
    )


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: x\n" + '{"a":\n' * 20_000,
        "|   0  " + "A " * 100_000,
        "NVRM: " + "[" * 100_000,
        json.dumps({"runtimes": 5}),
    ],
    ids=["deep document", "long row", "long line", "wrong document"],
)
def test_hostile_texts_are_read(text: str, tmp_path: Path, matrix: Matrix) -> None:
    with contextlib.suppress(UsageError):
        assert _host(tmp_path, text, matrix).looked is not None
