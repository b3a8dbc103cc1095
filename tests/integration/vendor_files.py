"""Files as NVIDIA gives them out behind its login: local repositories, packages, archives, wheels, installers."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from pathlib import Path

from tests.integration.catalogue import Package
from tests.integration.debs import build_deb, build_repository, sign_repository
from tests.integration.keys import SigningKeys
from tests.integration.rpms import build_rpms, index_rpms, sign_rpms

CUDNN_896 = b"#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 6\n"
CUDNN_805 = b"#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 0\n#define CUDNN_PATCHLEVEL 5\n"
TENSORRT_861 = b"".join(
    b"#define NV_TENSORRT_%s %d\n" % (word, number)
    for word, number in ((b"MAJOR", 8), (b"MINOR", 6), (b"PATCH", 1), (b"BUILD", 6))
)
NCCL_2185 = b"#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 5\n"


def repository_deb(
    folder: Path, name: str, packages: list[Package], keys: SigningKeys, fingerprint: str, *, version: str = "1.0-1"
) -> Path:
    """A .deb that holds a repository under /var, the current key, and the entry that makes apt read it."""
    content = folder / f"held-{name}"
    build_repository(content, packages)
    sign_repository(content, keys, fingerprint, head={"Label": name})
    if fingerprint:
        (content / f"{name}-keyring.gpg").write_bytes(keys.public(keys.current, armoured=False))
    entry = f"deb [signed-by=/usr/share/keyrings/{name}-keyring.gpg] file:///var/{name} /\n"
    return build_deb(_holding(content, name, version, f"/etc/apt/sources.list.d/{name}.list", entry), folder)


def repository_rpm(folder: Path, name: str, packages: list[Package], keys: SigningKeys, fingerprint: str) -> Path:
    """An .rpm that holds a repository under /var, the current key, and the entry that makes dnf read it."""
    content = folder / f"held-{name}"
    build_rpms(content, packages)
    sign_rpms(content, keys, fingerprint)
    index_rpms(content, keys, fingerprint)
    (content / "key.pub").write_bytes(keys.public(keys.current))
    text = (
        f"[{name}]\nname={name}\nbaseurl=file:///var/{name}\nenabled=1\ngpgcheck=1\ngpgkey=file:///var/{name}/key.pub\n"
    )
    build_rpms(folder / f"made-{name}", [_holding(content, name, "1.0-1", f"/etc/yum.repos.d/{name}.repo", text)])
    return next((folder / f"made-{name}").glob("*.rpm"))


def _holding(content: Path, name: str, version: str, entry: str, text: str) -> Package:
    files = {
        f"/var/{name}/{path.relative_to(content)}": path.read_bytes().decode("latin-1")
        for path in content.rglob("*")
        if path.is_file()
    }
    return Package(name, version, files={**files, entry: text})


def tar(path: Path, files: dict[str, bytes]) -> Path:
    """A tar archive; the ending of its name says what packs it."""
    ending = path.suffix.lstrip(".")
    packing = {"tgz": "gz", "txz": "xz"}.get(ending, ending)
    with tarfile.open(path, f"w:{packing}" if packing in {"gz", "xz", "bz2"} else "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return path


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def wheel(path: Path, name: str, version: str, tag: str, files: dict[str, bytes] | None = None) -> Path:
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    record = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        **(files or {}),
    }
    listed = "".join(f"{one},,\n" for one in (*record, f"{info}/RECORD"))
    return zipped(path, {**record, f"{info}/RECORD": listed.encode()})


def driver_run(path: Path, version: str, arch: str = "x86_64") -> Path:
    """The head of a driver's .run file, and no driver."""
    folder = f"NVIDIA-Linux-{arch}-{version}"
    label = f"NVIDIA Accelerated Graphics Driver for Linux-{arch} {version}"
    path.write_text(f'#!/bin/sh\nskip=8\nlabel="{label}"\ntargetdir="{folder}"\nexit 0\n', encoding="utf-8")
    return path


def elf(machine: int, *needed: str) -> bytes:
    """The head of a library and the names of those that it loads."""
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    head[18:20] = struct.pack("<H", machine)
    return bytes(head) + b"\0".join(name.encode() for name in ("", *needed, ""))


def dll(*needed: str) -> bytes:
    head = bytearray(0x100)
    head[:2], head[0x3C:0x40] = b"MZ", struct.pack("<I", 0x80)
    head[0x80:0x86] = b"PE\0\0" + struct.pack("<H", 0x8664)
    return bytes(head) + b"\0".join(name.encode() for name in ("", *needed, ""))


X86_64, AARCH64 = 62, 183
