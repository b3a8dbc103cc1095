"""An overlay is compiled once: the second use imports no YAML, says the same, and trusts no other user's files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.errors import MatrixError
from gpustack.matrix.index import Matrix
from gpustack.matrix.overlay import lay_over
from gpustack.matrix.overlay_cache import MOST, laid_over
from gpustack.matrix.store import open_store
from gpustack.model.facts import COMPONENTS

OVERLAY = """\
schema: gpustack/matrix/v1
subject: {subject}
sources: {{ours: {{address: "https://wiki.example.com/gpu", known: tested}}}}
tables:
"""
RELEASE = "  releases: {{rows: [{{version: {}, date: 2026-12-01, src: [ours]}}]}}\n"
RULE = "  rules: {rows: [{id: ours, of: 'cuda>=13', needs: driver, any: ['>=580'], src: [ours]}]}\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The entries of a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpustack" / "overlays"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "overlay"
    made.mkdir()
    (made / "cuda.yaml").write_text(OVERLAY.format(subject="cuda") + RELEASE.format("13.9.9") + RULE)
    (made / "new.yaml").write_text(
        OVERLAY.format(subject="new")
        + "  rules: {key: [id], fields: {id: word, of: text, needs: word, any: list of range},"
        " rows: [{id: other, of: cudnn, needs: cuda, any: ['>=12'], src: [ours]}]}\n"
    )
    return made


def entries(cache: Path) -> list[Path]:
    return sorted(cache.iterdir()) if cache.exists() else []


def answers(facts: Matrix) -> dict[str, object]:
    """All that queries by component answer."""
    return {
        f"{query} {name}": getattr(facts, query)(name)
        for query in ("releases", "rules", "availability", "packages")
        for name in COMPONENTS
    } | {"digest": facts.digest, "date": facts.date, "subjects": facts.subjects}


def test_the_cached_overlay_answers_as_the_compiled_one(folder: Path, cache: Path) -> None:
    compiled, first = Matrix(lay_over(open_store(), folder)), Matrix(laid_over(open_store(), folder))
    assert len(entries(cache)) == 1
    second = Matrix(laid_over(open_store(), folder))
    assert answers(first) == answers(second) == answers(compiled)
    assert {row.version for row in second.releases("cuda")} >= {"13.9.9"}
    assert [row.id for row in second.rules("cudnn")].count("other") == 1


def test_two_overlays_lie_on_each_other(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "cuda.yaml").write_text(OVERLAY.format(subject="cuda") + RELEASE.format("13.8.8"))
    for _ in range(2):
        both = Matrix(laid_over(laid_over(open_store(), folder), other))
        assert {"13.8.8", "13.9.9"} <= {row.version for row in both.releases("cuda")}
        assert "ours" in {row.id for row in both.rules("cuda")}


@pytest.mark.gate
def test_the_second_use_imports_no_yaml(folder: Path) -> None:
    program = (
        "import sys; from gpustack.__main__ import run\ntry: run()\nfinally: sys.stderr.write(' '.join(sys.modules))"
    )
    command = [sys.executable, "-c", program, "check", "cuda==13.9.9", "--os", "ubuntu24.04", "--matrices", str(folder)]
    for modules in (subprocess.run(command, capture_output=True, text=True, check=False).stderr for _ in range(2)):
        last = set(modules.rpartition("\n")[2].split())
    assert "gpustack.matrix.overlay_cache" in last
    assert not {"yaml", "hashlib", "tempfile"} & last


def test_a_changed_overlay_is_compiled_again(folder: Path, cache: Path) -> None:
    laid_over(open_store(), folder)
    status = (folder / "cuda.yaml").stat()
    (folder / "cuda.yaml").write_text((folder / "cuda.yaml").read_text().replace("13.9.9", "13.9.8"))
    os.utime(folder / "cuda.yaml", ns=(status.st_atime_ns, status.st_mtime_ns))  # neither size nor time says so
    assert "13.9.8" in {row.version for row in Matrix(laid_over(open_store(), folder)).releases("cuda")}
    assert len(entries(cache)) == 2


def test_a_broken_overlay_is_refused_each_time_and_not_cached(folder: Path, cache: Path) -> None:
    (folder / "cuda.yaml").write_text("hello")
    for _ in range(2):
        with pytest.raises(MatrixError, match="mapping"):
            laid_over(open_store(), folder)
    assert entries(cache) == []


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_an_entry_that_others_can_write_is_not_read(folder: Path, cache: Path, mode: int) -> None:
    laid_over(open_store(), folder)
    (entry,) = entries(cache)
    for place in (entry, cache):
        before = place.stat().st_mode
        (entry / "entry.msgpack").write_bytes(b"what an attacker writes")
        place.chmod(mode)
        assert "13.9.9" in {row.version for row in Matrix(laid_over(open_store(), folder)).releases("cuda")}
        place.chmod(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_entry_of_another_user_is_not_read(folder: Path, cache: Path) -> None:
    laid_over(open_store(), folder)
    (entry,) = entries(cache)
    (entry / "cuda.releases.msgpack").write_bytes(b"\x90")
    os.chown(entry, 1234, 1234)
    assert "13.9.9" in {row.version for row in Matrix(laid_over(open_store(), folder)).releases("cuda")}


def test_an_entry_that_lost_a_file_is_an_error_and_no_wrong_answer(folder: Path, cache: Path) -> None:
    laid_over(open_store(), folder)
    (entry,) = entries(cache)
    (entry / "@releases-cuda.msgpack").unlink()
    with pytest.raises(MatrixError, match="disappeared"):
        Matrix(laid_over(open_store(), folder)).releases("cuda")


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(folder: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file in its place")
    assert "13.9.9" in {row.version for row in Matrix(laid_over(open_store(), folder)).releases("cuda")}


@pytest.mark.gate
def test_the_number_of_entries_is_bounded(folder: Path, cache: Path) -> None:
    for number in range(MOST + 2):
        (folder / "cuda.yaml").write_text(OVERLAY.format(subject="cuda") + RELEASE.format(f"13.9.{number}"))
        laid_over(open_store(), folder)
    assert len(entries(cache)) == MOST


def test_a_home_that_does_not_exist_is_not_made(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    assert laid_over(open_store(), folder).index.subjects
    assert not (tmp_path / "nobody").exists()
