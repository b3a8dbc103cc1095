"""What a host's administrator set up: keys for Secure Boot, module builds that failed, container engines, licences."""

from __future__ import annotations

import re

import msgspec

from gpustack.detect import probes
from gpustack.detect.parse import builds, signing
from gpustack.detect.tree import Tree

EFIVARS = "/sys/firmware/efi/efivars"
BUILD_LOG_LIMIT = 8 << 20
"""A log of a module's build is read up to so many bytes from its end."""

DOCKER_PARTS = ("runtimes", "default-runtime", "features", "exec-opts", "node-generic-resources")
"""Of Docker's configuration what concerns GPUs; the rest can name registries and proxies with passwords."""

KEY_PLACES = ("/etc/apt/sources.list", "/etc/yum.repos.d/", "/etc/zypp/repos.d/")
"""Where package sources name key files."""

KEY_PATH = r"(?:[Ss]igned-[Bb]y[=:][ \t]*|gpgkey[ \t]*=[ \t]*file://)(/[^\s,\]]+)"
_KEYRING = r"asymmetri\w* (.+): (?:[0-9a-f]{2})+: X509|asymmetri\w* (.+): X509"


class SetupReader:
    """Reads one tree; what is found is added to ``files``, ``marks`` and ``listings``."""

    def __init__(self, tree: Tree, files: dict[str, str], marks: dict[str, str]) -> None:
        self.tree = tree
        self.files = files
        self.marks = marks

    def read(self, variables: tuple[str, ...], modules: dict[str, bytes]) -> None:
        """Everything; ``variables`` are the firmware's, ``modules`` the ends of its signed modules, by path."""
        if any(name.startswith("SecureBoot-") for name in variables):
            self._keys(variables)
        for path, tail in modules.items():
            self._signature(path, tail)
        for path in (path for pattern in probes.BUILD_LOGS for path in self.tree.glob(pattern, limit=20)):
            text = builds.telling(self._text(path, BUILD_LOG_LIMIT))
            self.files[path] = text
        for path in (path for pattern in probes.SETUP_MARKS for path in self.tree.glob(pattern, limit=20)):
            self.marks[path] = "there"
        self._engines()
        for path in self._named_keys():
            self.marks.setdefault(path, "there" if self.tree.exists(path) else "missing")
        if "/etc/nvidia/gridd.conf" in self.marks:
            self._licence()

    def _engines(self) -> None:
        """Of Docker's configuration what concerns GPUs."""
        text = self._text(probes.DOCKER, probes.TEXT_LIMIT)
        try:
            config = msgspec.json.decode(text) if text.strip() else None
        except (msgspec.DecodeError, UnicodeError) as exc:
            self.marks[probes.DOCKER] = f"no JSON: {exc}"
            return
        if isinstance(config, dict):
            kept_parts = {name: config[name] for name in DOCKER_PARTS if name in config}
            self.files[probes.DOCKER] = msgspec.json.encode(kept_parts).decode()

    def _licence(self) -> None:
        """What the daemon that fetches a vGPU's licence wrote."""
        for path in probes.LICENCE_LOGS:
            lines = [line for line in self._text(path, probes.LOG_LIMIT).splitlines() if "nvidia-gridd" in line]
            if lines:
                self.files[path] = "".join(f"{line[:300]}\n" for line in lines[-50:])

    def _named_keys(self) -> list[str]:
        """The key files that package sources name."""
        return [
            path
            for name, text in self.files.items()
            if name.startswith(KEY_PLACES)
            for path in re.findall(KEY_PATH, text)
        ]

    def _keys(self, variables: tuple[str, ...]) -> None:
        """The ids of the certificates that the firmware knows, and of those that this host signs modules with."""
        for name in variables:
            if name.startswith(("MokListRT", "db-")):
                path = f"{EFIVARS}/{name}"
                ids = [
                    one
                    for data in signing.certificates(self.tree.bytes_if_any(path, probes.BLOB_LIMIT))
                    for one in _ids(data)
                ]
                self.marks[path] = f"holds {' '.join(ids)}".strip()
        for path in (path for pattern in probes.SIGNING_KEYS for path in self.tree.glob(pattern, limit=20)):
            ids = _ids(self.tree.bytes_if_any(path, probes.BLOB_LIMIT))
            if ids:
                self.marks[path] = f"certificate {' '.join(ids)}"

    def _signature(self, path: str, tail: bytes) -> None:
        """Which key signed a module, and whether the running kernel's keyrings name it."""
        after = signing.INFO + len(signing.MAGIC)
        key, name = signing.signer(tail[-after - signing.signature_length(tail) : -after])
        if key:
            known = (
                match[1] or match[2] for match in re.finditer(_KEYRING, self._text("/proc/keys", probes.TEXT_LIMIT))
            )
            self.marks[path] = f"signed by {key}{' trusted' if name and name in known else ''}"

    def _text(self, path: str, limit: int) -> str:
        return self.tree.bytes_if_any(path, limit, tail=True).decode("utf-8", "replace")


def _ids(data: bytes) -> list[str]:
    return [one for one in signing.certificate(data) if one]
