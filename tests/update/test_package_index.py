"""The package index is the one of pip: its variable, its file, or its default."""

from __future__ import annotations

from pathlib import Path

import pytest

from package_index import index_address


def test_the_variable_of_pip_names_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example.com/simple/")
    assert index_address() == "https://mirror.example.com/simple"


@pytest.mark.gate
def test_the_file_of_pip_names_the_index_and_pip_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://files.example.com/simple/\n", encoding="utf-8")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    assert index_address() == "https://files.example.com/simple"
    file.write_text("", encoding="utf-8")
    assert index_address().startswith("https://")
    assert index_address().endswith("/simple")
