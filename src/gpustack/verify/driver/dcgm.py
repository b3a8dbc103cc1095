"""Reads the output of `dcgmi diag -j`, in the formats of DCGM 2 to 4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""The object that holds the tests: its name in DCGM 4, and in DCGM 2 and 3."""

_RESET, _ISOLATE = 6, 2
"""Severities for which DCGM itself says what to do; those of `dcgmErrorSeverity_enum`."""


class DiagResult(Struct, frozen=True, kw_only=True):
    """A result that is not a pass: its test, the GPU by DCGM's number ("" for all), and DCGM's message.

    ``code`` and ``severity`` are DCGM's own numbers; 0 where its release does not report them.
    """

    test: str
    gpu: str = ""
    says: str = ""
    code: int = 0
    severity: int = 0

    @property
    def sentence(self) -> str:
        """The finding as part of a sentence."""
        place = f" on GPU {self.gpu}" if self.gpu else ""
        number = f" (error {self.code})" if self.code else ""
        return f"{self.test}{place}: {self.says or 'no reason reported'}{number}"

    @property
    def fix(self) -> str:
        """What DCGM's severity requires; "" where it requires nothing definite."""
        which = f"`-i {self.gpu}`" if self.gpu else "`-i N`"
        if self.severity == _RESET:
            return f"stop all programs on that GPU, then run `sudo nvidia-smi --gpu-reset` with {which}, or reboot"
        return "take that GPU out of service: DCGM requires its isolation" if self.severity == _ISOLATE else ""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """One run: the tests by name, those that failed or were skipped, and why there was none (``refused``)."""

    version: str = ""
    tests: tuple[str, ...] = ()
    gpus: int = 0
    failures: tuple[DiagResult, ...] = ()
    skips: tuple[DiagResult, ...] = ()
    refused: str = ""


def parse_diagnosis(text: str) -> Diagnosis | None:
    """The diagnosis in ``text``; None where that is not DCGM's JSON."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = _object(msgspec.json.decode(text[start : end + 1])) if start >= 0 else {}
    except msgspec.DecodeError:
        return None
    root = next((found[name] for name in _ROOTS if name in found), None)
    if not isinstance(root, dict):
        return None
    version = str(_object(found.get("metadata")).get("version") or found.get("version") or root.get("version") or "")
    if root.get("runtime_error"):
        return Diagnosis(version=version, refused=" ".join(str(root["runtime_error"]).split()))
    tests, failures, skips, gpus = [], [], [], set()
    for test in _tests(root):
        tests.append(str(test.get("name", "?")))
        for finding, status in _results(test):
            gpus.add(finding.gpu)
            if status in {"fail", "warn"}:
                failures.append(finding)
            elif status == "skip":
                skips.append(finding)
    return Diagnosis(
        version=version, tests=tuple(tests), gpus=len(gpus - {""}), failures=tuple(failures), skips=tuple(skips)
    )


def _tests(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for category in _list(root.get("test_categories")):
        yield from (test for test in _list(_object(category).get("tests")) if isinstance(test, dict))


def _results(test: dict[str, Any]) -> Iterator[tuple[DiagResult, str]]:
    """Each result with its status; DCGM 4's summary where no single result is a failure."""
    name = str(test.get("name", "?"))
    said = [_finding(name, result) for result in _list(test.get("results")) if isinstance(result, dict)]
    yield from said
    summary = test.get("test_summary")
    if isinstance(summary, dict) and not any(status != "pass" for _, status in said):
        yield _finding(name, summary)


def _finding(name: str, result: dict[str, Any]) -> tuple[DiagResult, str]:
    status = str(result.get("status", "")).lower()
    error: dict[str, Any] = next(iter(_errors(result.get("warnings"))), {})
    gpu = result.get("gpu_id", result.get("gpu_ids", result.get("entity_id", "")))
    if result.get("entity_group", "GPU") != "GPU":
        gpu = ""
    finding = DiagResult(
        test=name,
        gpu=str(gpu),
        says=str(error.get("says", "")),
        code=int(error.get("error_id", 0)),
        severity=int(error.get("error_severity", 0)),
    )
    return finding, status


def _errors(warnings: object) -> Iterator[dict[str, Any]]:
    """A string up to DCGM 3.1; then objects, whose text the software tests of DCGM 3 call `warnings`."""
    if isinstance(warnings, str):
        yield {"says": _sentence(warnings)}
    for one in _list(warnings):
        if isinstance(one, dict):
            yield {**one, "says": _sentence(str(one.get("warning") or one.get("warnings") or ""))}


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
