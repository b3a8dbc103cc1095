"""Logs of kernel modules that dkms or akmods failed to build: which module, which kernel, the first real error."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.detect.evidence import Evidence

_PLACES = ("/var/lib/dkms/", "/var/cache/akmods/")
DKMS = r"/var/lib/dkms/([\w.+-]+)/([\w.+~-]+)/build/make\.log"
AKMODS = r"/var/cache/akmods/([\w.+-]+)/(\d[\w.~]*)-\w+-for-(.+)\.failed\.log"
INSTALLER = "/var/log/nvidia-installer.log"
_RELEASE = r"NVIDIA-Linux-\w+-(\d+\.\d+(?:\.\d+)?)"
_SOURCE = r"/lib/modules/([^/\s']+)/"
_PREFIX = r"^\d{4}/\d\d/\d\d [\d:]{8} akmods(?:build)?: "
_KERNEL = r"for kernel (\S+)"
_ERROR = (
    r"\berror:|\bERROR:|\bfatal:|undefined reference|\bundefined!|No space left on device|Killed\b|"
    r"The kernel you are installing for is a|"
    r"Kernel configuration is invalid|modules/\S+/build: No such file|"
    r"version[- ]check failed|No rule to make target|is needed by |cannot be found|objtool: |internal compiler error|"
    r"file not recognized|^(?:g?awk|mawk|perl|python3): |"
    r": (?:command )?not found$|^make\S*: (?!\*\*\*)[\w./+-]+: (?:No such file|Command not found|Permission denied)"
)
_GAVE_UP = r"^make\S*: \*\*\* .*Error \d+$"
"""All that a build says whose compiler was quiet, or wrote elsewhere."""

_CONSEQUENCE = (
    r"^make\S*\s(?!.*modules/\S+/build: No such|[\w./+-]+: (?:No such file|Command not|Permission denied))|"
    r"\*\*\* (?!/lib/modules)|Bad exit status|Failed build dependencies|"
    r"RPM build errors"
)
_HEAD = rf"The kernel was built by:|You are using:|make\.log for|^DKMS |{_RELEASE}|Kernel source path"


class BuildLog(Struct, frozen=True, kw_only=True):
    """A failed build. ``compiler`` is what built the kernel; "" for what the log does not tell."""

    path: str
    module: str
    version: str
    kernel: str
    error: str
    compiler: str = ""


def telling(text: str) -> str:
    """The lines of a log that say which build it was and what was wrong first."""
    lines = [re.sub(_PREFIX, "", line).strip()[:400] for line in text.splitlines()]
    heads = [line for line in lines if re.search(_HEAD, line)][:4]
    errors = [line for line in lines if re.search(_ERROR, line) and not re.search(_CONSEQUENCE, line)]
    ends = [] if errors else [line for line in lines if re.search(_GAVE_UP, line)][-1:]
    return "".join(f"{line}\n" for line in dict.fromkeys((*heads, *errors[:8], *ends)))


def failed_builds(evidence: Evidence) -> tuple[BuildLog, ...]:
    """The failed builds whose logs are there, in the order of their paths."""
    found = [_of_installer(evidence.files[INSTALLER])] if INSTALLER in evidence.files else []
    for path, text in sorted(evidence.files.items()):
        if not path.startswith(_PLACES):
            continue
        akmods = re.fullmatch(AKMODS, path)
        match = re.fullmatch(DKMS, path) or akmods
        if match is None:
            continue
        lines = text.splitlines()
        kernel = akmods[3] if akmods else next((k[1] for line in lines if (k := re.search(_KERNEL, line))), "")
        built = re.search(r"The kernel was built by:\s*(?:\S*?-)?(gcc-\d+|clang(?:-\d+)?)\b", text)
        errors = (line for line in lines if re.search(_ERROR, line) and not re.search(_CONSEQUENCE, line))
        error = next(errors, next((line for line in lines if re.search(_GAVE_UP, line)), ""))
        found.append(
            BuildLog(
                path=path, module=match[1], version=match[2], kernel=kernel, error=error,
                compiler=built[1] if built else "",
            )
        )  # fmt: skip
    return tuple(found)


def _of_installer(text: str) -> BuildLog:
    """What a .run file's installer wrote of its last build."""
    release, source = re.search(_RELEASE, text), re.search(_SOURCE, text)
    error = next((line for line in text.splitlines() if re.search(_ERROR, line)), "")
    return BuildLog(
        path=INSTALLER, module="nvidia" if release else "", version=release[1] if release else "",
        kernel=source[1] if source else "", error=error,
    )  # fmt: skip
