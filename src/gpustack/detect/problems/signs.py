"""States of a host that the facts describe: lines of services' logs, settings of files, versions of parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpustack.detect import services
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.rows import HostRow, LogRow, SettingRow, is_like
from gpustack.detect.scene import Scene

_WIDTH = 260
_PREFIX = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+ (?:std(?:out|err) [FP] )?|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S+ )?"
)


@detects("detect-service-log")
def service_log(scene: Scene) -> Iterator[Finding]:
    """Messages of services about GPUs whose cause is known: each once, with the last line that says so."""
    rows = scene.matrix.rows("driver-errors", "service_log", LogRow)
    texts = [(path, text) for path, text in sorted(scene.evidence.files.items()) if _is_log(path)]
    for row in rows:
        found = next(((path, line) for path, text in texts if (line := _line(row, text))), None)
        if found is not None and is_like(scene, row):
            path, line = found
            version = f"; driver {scene.driver_version}" if scene.driver_version else ""
            yield _finding(scene, row, f"{row.says} ({path}: {_quoted(line)}{version})")


@detects("detect-setting")
def setting(scene: Scene) -> Iterator[Finding]:
    """Settings of files that keep programs from GPUs, or take GPUs from them."""
    for row in scene.matrix.rows("conflicts", "settings", SettingRow):
        texts = {
            path: text
            for path, text in sorted(scene.evidence.files.items())
            if any(fnmatchcase(path, pattern) for pattern in row.files)
        }
        if not texts or (row.without and any(re.search(row.without, text) for text in texts.values())):
            continue
        path = next((path for path, text in texts.items() if not row.holds or re.search(row.holds, text)), None)
        if path is not None and is_like(scene, row):
            yield _finding(scene, row, f"{path}: {row.says}")


@detects("detect-known-part")
def part(scene: Scene) -> Iterator[Finding]:
    """Parts of the stack that are known to go wrong on a host like this."""
    for row in scene.matrix.rows("known-bad", "parts", HostRow):
        if is_like(scene, row):
            yield _finding(scene, row, row.says)


def _finding(scene: Scene, row: HostRow, message: str) -> Finding:
    return Finding(
        message=message, fix=row.fix, severity=row.severity, reboot=False, sources=scene.matrix.addresses(row.src)
    )


def _is_log(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in services.LOGS)


def _line(row: LogRow, text: str) -> str:
    """The last line with all texts of the row, "" without one."""
    if not all(words in text for words in row.wants):
        return ""
    return next((line for line in reversed(text.splitlines()) if all(words in line for words in row.wants)), "")


def _quoted(line: str) -> str:
    """The message without what the log daemon or the container engine writes before it."""
    return _PREFIX.sub("", line.replace("#012", " ")).strip()[:_WIDTH]
