"""Signing keys whose text the facts hold are the keys that their fingerprints name."""

from __future__ import annotations

import subprocess

import pytest

from gpustack.matrix.index import load_matrix

KEYS = {row.id: row for row in load_matrix().keys.values() if row.armoured}


def test_some_keys_have_a_text() -> None:
    assert {"3bf863cc", "container-toolkit"} <= KEYS.keys()


@pytest.mark.parametrize("name", KEYS)
def test_the_text_is_the_key_of_the_fingerprint_and_of_no_other(name: str) -> None:
    command = ["gpg", "--batch", "--show-keys", "--with-colons"]
    told = subprocess.run(command, input=KEYS[name].armoured.encode(), capture_output=True, check=True).stdout.decode()
    lines = [line.split(":") for line in told.splitlines()]
    assert [words[0] for words in lines].count("pub") == 1
    first = next(words[9] for words in lines if words[0] == "fpr")
    assert first == KEYS[name].fingerprint
    assert not any(words[0] in {"sec", "ssb"} for words in lines)
