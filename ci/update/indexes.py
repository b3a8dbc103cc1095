"""Repository indexes in the form that Debian's and Fedora's tools write, for the folders of a vendor.

Stand-ins: NVIDIA's own indexes were not found in public. The fields of a stanza are those of Debian's
``nvidia-cuda-dev``; names and versions of packages are those of the facts.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable

from update.record import Body

HOME = "https://developer.download.nvidia.com/compute/cuda/repos/"
DAY = "2026-11-23"


def packages(entries: Iterable[tuple[str, str]]) -> bytes:
    """A Packages file with these names and versions."""
    stanzas = []
    for name, version in entries:
        file = f"./{name}_{version.partition(':')[2] or version}_amd64.deb"
        stanzas.append(
            f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: cudatools <cudatools@nvidia.com>\n"
            f"Installed-Size: 4\nDepends: libc6\nSection: devel\nPriority: optional\nFilename: {file}\nSize: 2048\n"
            f"SHA256: {hashlib.sha256(file.encode()).hexdigest()}\nDescription: {name}\n A part of the toolkit.\n"
        )
    return "\n".join(stanzas).encode()


def release(arch: str, data: bytes) -> bytes:
    """The Release file of a folder with this Packages file."""
    line = f" {hashlib.sha256(data).hexdigest()} {len(data):>10} Packages\n"
    return f"Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitecture: {arch}\nSHA256:\n{line}".encode()


def apt(repo: str, arch: str, entries: Iterable[tuple[str, str]]) -> list[Body]:
    """Release and Packages of a folder."""
    data = packages(entries)
    return [
        Body(f"{HOME}{repo}/{arch}/Release", DAY, release(arch, data)),
        Body(f"{HOME}{repo}/{arch}/Packages", DAY, data),
    ]


def rpm(repo: str, arch: str, entries: Iterable[tuple[str, str, str]]) -> list[Body]:
    """repomd.xml and primary.xml.gz of a folder; an entry is name, version and release."""
    entries = list(entries)
    found = "".join(
        f'<package type="rpm"><name>{name}</name><arch>x86_64</arch>'
        f'<version epoch="0" ver="{version}" rel="{release}"/>'
        f'<location href="{name}-{version}-{release}.x86_64.rpm"/></package>'
        for name, version, release in entries
    )
    text = f'<metadata xmlns="http://linux.duke.edu/metadata/common" packages="{len(entries)}">{found}</metadata>'
    data = gzip.compress(text.encode(), mtime=0)
    total = hashlib.sha256(data).hexdigest()
    index = (
        '<repomd xmlns="http://linux.duke.edu/metadata/repo"><data type="primary">'
        f'<checksum type="sha256">{total}</checksum><location href="repodata/{total}-primary.xml.gz"/></data></repomd>'
    )
    home = f"{HOME}{repo}/{arch}/"
    return [
        Body(f"{home}repodata/repomd.xml", DAY, index.encode()),
        Body(f"{home}repodata/{total}-primary.xml.gz", DAY, data),
    ]
