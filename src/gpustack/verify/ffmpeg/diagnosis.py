"""Why an FFmpeg run failed, by its messages and its exit status."""

from __future__ import annotations

import os
import re

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.verify.ffmpeg.causes import CAUSES, FEWER_THREADS, MORE_SURFACES, SUBJECT, Diagnosis, Setup, key_of
from gpustack.verify.ffmpeg.lists import About

REMEDIES = {"too_many_surfaces": FEWER_THREADS, "no_surfaces_left": MORE_SURFACES}
"""Options before -i that fix a kind of failure without any action of the user."""


_NOISE = re.compile(
    r"^(?:Conversion failed!|frame=|\[out#|\[vf#|Error opening output file|Stream mapping|Press \[q\])|^\s|^$"
    r"|Terminating thread|Task finished|Could not open encoder before EOF"
)


class ExitCode(Struct, frozen=True, kw_only=True):
    """What an exit status means, and since which release it does."""

    code: int
    meaning: str
    averror: str = ""
    since: str = ""


def diagnose(matrix: Matrix, text: str, code: int | None, setup: Setup) -> Diagnosis:
    """Why FFmpeg failed with ``text`` on standard error and the exit status ``code``, and what to do.

    FFmpeg's own hint about a driver is never repeated: it is a constant of the build and independent of the cause.
    """
    key = key_of(matrix, text)
    known = CAUSES.get(key)
    if known is not None:
        return known(matrix, text, setup)
    line = last_error(text)
    if line:
        return Diagnosis(key=key, cause=f"FFmpeg stopped: {line}")
    return Diagnosis(key=key, cause=f"FFmpeg stopped with {exit_status(matrix, code, setup.about)} and no message")


def exit_status(matrix: Matrix, code: int | None, about: About) -> str:
    """An exit status in words. Up to FFmpeg 6.0 every failure is 1; from 6.1 on it is the error number's last byte."""
    if code is None:
        return "no exit status"
    if code < 0 or code == 139:
        return f"a crash (signal {-code if code < 0 else 11})"
    if code == 1 and about.is_before(6, 1):
        return "exit status 1 (FFmpeg 6.0 and older use it for every failure)"
    row = next((one for one in matrix.rows(SUBJECT, "exit_codes", ExitCode) if one.code == code), None)
    if row is not None and not about.is_before(*_numbers(row.since)):
        return f"exit status {code} ({row.meaning})"
    number = 256 - code
    if not about.is_before(6, 1) and 0 < number < 134:
        return f"exit status {code} ({os.strerror(number)})"
    return f"exit status {code}"


def _numbers(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major or 0), int(minor.partition(".")[0] or 0)


def last_error(text: str) -> str:
    """The most telling line of FFmpeg's output: the first that is neither progress nor an echo of the failure."""
    lines = [line for line in text.splitlines() if not _NOISE.search(line)]
    telling = [
        line for line in lines if re.search(r"error|fail|cannot|invalid|unable|no such|not found", line, re.IGNORECASE)
    ]
    chosen = (telling or lines)[:1]
    return re.sub(r"^(?:\[[^\]]*\] ?)+", "", chosen[0]).strip() if chosen else ""
