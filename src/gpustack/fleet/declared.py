"""The evidence module: one file that runs on a host, made from the declarations of ``detect``.

What a host is asked cannot differ from what ``detect`` reads, because both come from the same tables; the file itself
(``templates/fleet/evidence.py``) only knows how to read. It keeps secrets on the host: of configuration it sends the
lines that ``detect`` keeps.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack.detect import kernel_log, kernel_modules, log_words, probes, services, setup
from gpustack.detect.bus import OF_GPUS, OF_NVIDIA
from gpustack.detect.captured import GPU_QUERIES
from gpustack.detect.environments import names
from gpustack.detect.environments.read import FOLDER
from gpustack.detect.gather import RPM_QUERY
from gpustack.detect.parse.release_files import PATTERNS
from gpustack.detect.record import KEPT_ENVIRON, PROCESS_ENVIRON
from gpustack.resources import folder

TOTAL = 24 << 20
"""The most bytes that one host sends, before they are packed."""

_BOOT = "Linux version "
_BUILD_WORDS = (
    "error", "ERROR", "fatal", "undefined", "No space left", "Killed", "No rule to make target", "is needed by",
    "cannot be found", "objtool", "The kernel was built by", "You are using", "make.log for", "DKMS ", "NVIDIA-Linux",
    "Kernel source path", "for kernel ",
)  # fmt: skip
_PACKAGE_FILES = ("/var/lib/dpkg/status", "/var/lib/dpkg/status.d/*")
_ROTATED = ("/var/log/kern.log*", "/var/log/messages*", "/var/log/syslog*", "/var/log/fabricmanager.log*")


def module_text() -> str:
    """The evidence module as the text of one file. Raises OSError where its template cannot be read."""
    text = (folder("templates") / "fleet" / "evidence.py").read_text(encoding="utf-8")
    return text.replace("@DECLARED@", msgspec.json.encode(declared()).decode())


def declared() -> dict[str, Any]:
    """Everything that the module reads, as data."""
    return {
        "total": TOTAL,
        "reads": [*_reads(), *_logs()],
        "words": _words(),
        "listings": {
            **{
                path: probes.KEPT_NAMES.get(path, "") for path in probes.LISTINGS if not path.startswith("/sys/bus/pci")
            },
            "/var/lib/dkms/nvidia*": "",
            "/var/lib/dkms/nvidia*/[0-9]*": "",
        },
        "links": [*probes.LINKS],
        "exists": [*probes.MARKS, *probes.SETUP_MARKS, *_TOOLS],
        "bus": [*OF_NVIDIA, *OF_GPUS],
        "module_folders": probes.MODULE_FOLDERS,
        "module_end": kernel_modules.TAIL,
        "index": probes.INDEX_LIMIT,
        "library_folders": probes.STANDARD_LIBRARY_FOLDERS,
        "library_globs": probes.OTHER_LIBRARY_GLOBS,
        "library_starts": probes.LIBRARY_STARTS,
        "library_names": probes.LIBRARY_NAMES,
        "key_places": setup.KEY_PLACES,
        "key_path": setup.KEY_PATH,
        "packages": probes.PACKAGE_NAMES,
        "environments": names.PLACES,
        "prefixes": probes.MAX_PREFIXES,
        "distributions": FOLDER.replace("(?i:", "(?:"),
        "conda": names.CONDA,
        "environment_texts": names.TEXTS,
        "environment_libraries": probes.WHEEL_LIBRARIES,
        "environ": [*probes.ENVIRON],
        "commands": [*probes.COMMANDS, *GPU_QUERIES],
        "rpm": RPM_QUERY,
        "logs": {"kernel": kernel_log.DMESG, "journal": kernel_log.JOURNALCTL},
        "unit_folders": services.UNIT_FOLDERS,
        "units": services.UNITS,
        "journal": ["journalctl", *services.JOURNAL_OPTIONS],
    }


_TOOLS = (
    "/usr/local/cuda*/bin/nvcc", "/usr/local/cuda*/bin/cuda-uninstaller", "/usr/bin/rpm", "/var/log/journal",
    "/run/log/journal",
)  # fmt: skip


def _reads() -> list[dict[str, Any]]:
    """The files: where they are, how much of each is read, and what of it leaves the host."""
    texts = [{"path": path, "limit": probes.TEXT_LIMIT} for path in (*probes.TEXTS, *probes.TEXT_GLOBS, *PATTERNS)]
    quiet = [{"path": path, "limit": probes.TEXT_LIMIT} for path in probes.QUIET_TEXTS if path != PROCESS_ENVIRON]
    blobs = [{"path": path, "limit": probes.BLOB_LIMIT} for path in (*probes.BLOB_GLOBS, *probes.SIGNING_KEYS)]
    firmware = [{"path": f"{setup.EFIVARS}/{name}*", "limit": probes.BLOB_LIMIT} for name in ("MokListRT", "db-")]
    settings = [
        {
            "path": path,
            "limit": services.LIMIT,
            "tail": True,
            "keep": "matching",
            "match": kept,
            "files": services.FILES,
        }
        for path, kept in services.SETTINGS.items()
    ]
    packages = [{"path": path, "limit": 96 << 20, "keep": "stanzas", "files": 2000} for path in _PACKAGE_FILES]
    return [
        {"path": PROCESS_ENVIRON, "limit": probes.TEXT_LIMIT, "keep": "variables", "names": KEPT_ENVIRON},
        {"path": probes.DOCKER, "limit": probes.TEXT_LIMIT, "keep": "parts", "parts": setup.DOCKER_PARTS},
        *settings,
        *packages,
        *texts,
        *quiet,
        *blobs,
        *firmware,
        {"path": "/proc/keys", "limit": probes.TEXT_LIMIT},
        {"path": "/sys/class/infiniband/*/device/vpd", "limit": 1 << 16, "tail": True, "files": 64},
    ]


def _logs() -> list[dict[str, Any]]:
    """The ends of logs, of which only lines with one of the words leave the host."""
    paths = dict.fromkeys((*probes.LOGS, *services.LOGS, *probes.BUILD_LOGS, *probes.LICENCE_LOGS, *_ROTATED))
    return [
        {"path": path, "limit": services.LIMIT, "tail": True, "keep": "lines", "files": services.FILES}
        for path in paths
    ]


def _words() -> list[str]:
    """The words of all logs, in lower case: a host sends rather too much than too little."""
    found = (
        *probes.LOG_WORDS,
        *(word.decode() for word in (*log_words.WORDS, *log_words.CAPITALS)),
        *(word.decode() for word in (*kernel_log.WORDS, *kernel_log.FABRIC_WORDS)),
        *kernel_log.FAULTS,
        *_BUILD_WORDS,
        _BOOT,
    )
    return sorted({word.lower() for word in found})
