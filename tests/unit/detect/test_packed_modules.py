"""Signers of modules that the distribution packs: read where Secure Boot decides, and said where they cannot be read."""

from __future__ import annotations

import gzip
import lzma
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.signing import GLOBAL, SHIM, certificate, enrolled, signed
from tests.unit.detect.test_host_threads import host_tree, put

from gpustack.detect.build import host_of
from gpustack.detect.gather import gather
from gpustack.matrix.index import load_matrix

KERNEL = "6.11.4-301.fc41.x86_64"
PLACE = f"/lib/modules/{KERNEL}/extra/nvidia/nvidia.ko"


def tree(root: Path, name: str, data: bytes, *, secure: bool = True) -> None:
    host_tree(root, {"base": "fedora41", "class": "modules"})
    firmware = "/sys/firmware/efi/efivars"
    put(root, f"{firmware}/SecureBoot-{GLOBAL}", b"\6\0\0\0" + (b"\1" if secure else b"\0"))
    put(root, f"{firmware}/MokListRT-{SHIM}", enrolled("Fedora Secure Boot CA"))
    put(root, "/etc/pki/akmods/certs/public_key.der", certificate("akmods"))
    put(root, f"{PLACE}{name}", data)


def packed(name: str, data: bytes, folder: Path) -> bytes:
    if name == ".xz":
        return lzma.compress(data)
    if name == ".gz":
        return gzip.compress(data)
    if shutil.which("zstd") is None:
        pytest.skip("the program zstd is not installed")
    (folder / "plain").write_bytes(data)
    return subprocess.run(["zstd", "-cq", str(folder / "plain")], check=True, capture_output=True).stdout


@pytest.mark.parametrize("name", [".xz", ".gz", ".zst"])
def test_the_signer_of_a_packed_module_is_named(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    tree(root, name, packed(name, signed("akmods"), tmp_path))
    told = [
        problem for problem in host_of(gather(root), load_matrix()).problems if problem.id == "secure_boot_unsigned"
    ]
    assert [one.fix for one in told if "mokutil --import /etc/pki/akmods/certs/public_key.der" in one.fix], told


@pytest.mark.parametrize("name", [".xz", ".gz", ".zst"])
def test_a_packed_module_without_a_signature_is_unsigned(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    tree(root, name, packed(name, signed(""), tmp_path))
    assert gather(root).marks[f"{PLACE}{name}"] == "unsigned"


@pytest.mark.parametrize("name", [".xz", ".gz", ".zst", ".lz4"])
def test_what_cannot_be_unpacked_is_said(name: str, tmp_path: Path) -> None:
    tree(tmp_path, name, b"no archive")
    evidence = gather(tmp_path)
    assert evidence.marks[f"{PLACE}{name}"].startswith("unread ")
    unseen = host_of(evidence, load_matrix()).looked.not_at
    assert [one for one in unseen if one.what == f"signature of {PLACE}{name}"]


def test_without_secure_boot_nothing_is_unpacked(tmp_path: Path) -> None:
    tree(tmp_path, ".xz", b"no archive", secure=False)
    assert f"{PLACE}.xz" not in gather(tmp_path).marks
