"""Package sources of every form, keys, pins, locks, streams."""

from __future__ import annotations

import hashlib

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse import repositories
from gpustack.detect.parse.packages import Package

URL = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/"


def test_one_line_sources() -> None:
    text = (
        f"deb [arch=amd64,i386 signed-by=/usr/share/keyrings/x.gpg] {URL} /\n# deb {URL} /\n# a remark\ndeb cdrom:x\n"
    )
    first, second = repositories.parse_one_line("/etc/apt/sources.list", text)
    assert (first.url, first.signed_by, first.arches, first.enabled) == (
        URL, "/usr/share/keyrings/x.gpg", ("amd64", "i386"), True,
    )  # fmt: skip
    assert not second.enabled


def test_deb822_sources() -> None:
    text = (
        f"# remark\nTypes: deb\nURIs: {URL}\n https://user:word@example.org/b\nSuites: /\nArchitectures: amd64\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n\nEnabled: no\nURIs: https://nvidia.github.io/x\n"
    )
    first, second, third = repositories.parse_deb822("x.sources", text)
    assert (first.url, first.signed_by, first.arches) == (URL, "(key in the file)", ("amd64",))
    assert second.url == "https://example.org/b"
    assert not third.enabled


def test_repo_files() -> None:
    text = "[cuda]\nname=c\nbaseurl=https://a/nvidia\n https://b/nvidia\nenabled=0\ngpgkey=file:///k\nexclude=mft*\n[x]\nfoo\n"
    first, second = repositories.parse_repo_file("/etc/yum.repos.d/cuda.repo", text)
    assert (first.url, first.enabled, first.key, first.text) == ("https://a/nvidia", False, "file:///k", "mft*")
    assert second.url == "https://b/nvidia"


def key_packet(body: bytes) -> bytes:
    return b"\x99" + len(body).to_bytes(2, "big") + body


def test_fingerprints_of_binary_and_armoured_keys() -> None:
    import base64

    body = b"\x04\x5f\x00\x00\x00\x01" + b"k" * 60
    want = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
    packet = key_packet(body)
    assert repositories.fingerprints(packet + b"\xb4\x03abc") == (want,)
    new_form = b"\xc6" + bytes([len(body)]) + body
    assert repositories.fingerprints(new_form) == (want,)
    text = b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: 1\n\n" + base64.encodebytes(packet)
    assert repositories.fingerprints(text + b"=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n") == (want,)
    assert repositories.fingerprints(b"") == ()
    assert repositories.fingerprints(b"\xff" * 50) == ()


def test_pins_holds_and_streams() -> None:
    evidence = Evidence(
        files={
            "/etc/apt/preferences.d/cuda-repository-pin-600": "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
            "/etc/apt/preferences.d/other": "Package: nodejs\nPin: origin x\nPin-Priority: 1\n",
            "/etc/dnf/plugins/versionlock.list": "# c\nnvidia-driver-3:580.95.05-1.el9.*\nbash-0:5.1\n",
            "/etc/zypp/locks": "type: package\nmatch_type: glob\nsolvable_name: nvidia-open-driver-G06*\n",
            "/etc/dnf/modules.d/nvidia-driver.module": "[nvidia-driver]\nstream=580-open\nstate=enabled\n",
            "/etc/dnf/modules.d/php.module": "[php]\nstream=8\nstate=enabled\n",
        }
    )
    held = (Package(name="libnccl2", version="2", manager="dpkg", held=True),)
    assert repositories.pins(evidence) == (
        "/etc/apt/preferences.d/cuda-repository-pin-600: * release l=NVIDIA CUDA 600",
    )
    assert repositories.holds(evidence, held) == (
        "libnccl2", "nvidia-driver-3:580.95.05-1.el9.*", "nvidia-open-driver-G06*",
    )  # fmt: skip
    assert repositories.streams(evidence) == ("nvidia-driver:580-open",)
