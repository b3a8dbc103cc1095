"""Logs of kernel modules that dkms or akmods failed to build: which module, which kernel, the first real error."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.detect.evidence import Evidence

DKMS = re.compile(r"/var/lib/dkms/([\w.+-]+)/([\w.+~-]+)/build/make\.log")
AKMODS = re.compile(r"/var/cache/akmods/([\w.+-]+)/(\d[\w.~]*)-\w+-for-(.+)\.failed\.log")
_PREFIX = re.compile(r"^\d{4}/\d\d/\d\d [\d:]{8} akmods(?:build)?: ")
_KERNEL = re.compile(r"for kernel (\S+)")
_ERROR = re.compile(
    r"\berror:|\bERROR:|\bfatal:|undefined reference|\bundefined!|No space left on device|Killed\b|"
    r"No rule to make target|is needed by |cannot be found|objtool: |internal compiler error"
)
_CONSEQUENCE = re.compile(r"^make\S*\s|\*\*\* |Bad exit status|Failed build dependencies|RPM build errors")
_HEAD = re.compile(r"The kernel was built by:|You are using:|make\.log for|^DKMS ")


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
    lines = [_PREFIX.sub("", line).strip()[:400] for line in text.splitlines()]
    heads = [line for line in lines if _HEAD.search(line)][:4]
    errors = [line for line in lines if _ERROR.search(line) and not _CONSEQUENCE.search(line)]
    return "".join(f"{line}\n" for line in dict.fromkeys((*heads, *errors[:8])))


def failed_builds(evidence: Evidence) -> tuple[BuildLog, ...]:
    """The failed builds whose logs are there, in the order of their paths."""
    found = []
    for path, text in sorted(evidence.files.items()):
        match = DKMS.fullmatch(path) or AKMODS.fullmatch(path)
        if match is None:
            continue
        lines = text.splitlines()
        kernel = match[3] if match.re is AKMODS else next((k[1] for line in lines if (k := _KERNEL.search(line))), "")
        built = re.search(r"The kernel was built by:\s*(?:\S*?-)?(gcc-\d+|clang(?:-\d+)?)\b", text)
        error = next((line for line in lines if _ERROR.search(line) and not _CONSEQUENCE.search(line)), "")
        found.append(
            BuildLog(
                path=path, module=match[1], version=match[2], kernel=kernel, error=error,
                compiler=built[1] if built else "",
            )
        )  # fmt: skip
    return tuple(found)
