"""The host document: stable, and refused with a sentence when it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.detect.hostfile import MAX_BYTES, dump, load
from gpustack.errors import DocumentError
from gpustack.model.host import Gpu, Host


def test_round_trip(tmp_path: Path) -> None:
    host = Host(arch="x86_64", gpus=(Gpu(name="H200", nvenc=0),))
    path = tmp_path / "host.json"
    path.write_text(dump(host), encoding="utf-8")
    assert load(path) == host
    assert dump(load(path)) == dump(host)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe{}", "not a JSON object"),
        (b"{}", "schema is 'None'"),
        (b'{"schema": "gpustack/plan/v1"}', "schema is 'gpustack/plan/v1'"),
        (b'{"schema": "gpustack/host/v99"}', "schema is"),
        (b'{"schema": "gpustack/host/v1", "gpus": 7}', "gpus"),
        (b'{"schema": "gpustack/host/v1", "gpus": [{"nvenc": "many"}]}', "nvenc"),
        (b'{"schema": "gpustack/host/v1", "environment": "moon"}', "environment"),
        (b"[" * 100_000, "not a JSON object"),
        (b" " * (MAX_BYTES + 1), "longer than"),
    ],
)
def test_broken_documents(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "host.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=words) as caught:
        load(path)
    assert caught.value.exit_code == 2


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DocumentError):
            load(path)
