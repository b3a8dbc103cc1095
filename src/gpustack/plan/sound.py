"""Fields of a step that no system can carry out, found before anything begins."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gpustack.model.actions import Words
from gpustack.model.steps import Artifact, Step
from gpustack.plan.former import actions_of, undo_actions_of
from gpustack.plan.touched import place_fault, touched_by

_PROSE = frozenset({"title", "why", "undo_note", "sources"})
"""Texts for people, which nothing interprets."""

_MODE = re.compile(r"0?[0-7]{3}")
_SHA256 = re.compile(r"(?:[0-9a-f]{64})?")
_FINGERPRINT = re.compile(r"(?:[0-9A-Fa-f]{40})?")


def step_fault(step: Step, *, is_windows: bool) -> str:
    """The first field of a step that cannot be carried out, and why; or ""."""
    return next((f"{place} {why}" for place, why in _faults(step, is_windows=is_windows) if why), "")


def _faults(step: Step, *, is_windows: bool) -> Iterator[tuple[str, str]]:
    content = msgspec.to_builtins(step)
    for place, text in _texts({key: value for key, value in content.items() if key not in _PROSE}, ""):
        yield place, "holds a NUL character, which no command and no file name can hold" if "\0" in text else ""
    for number, file in enumerate(step.files):
        yield f"files[{number}].path", place_fault(file.path, is_windows=is_windows)
        is_mode = _MODE.fullmatch(file.mode)
        yield f"files[{number}].mode", "" if is_mode else f"is {_short(file.mode)}, and not a mode like 0644"
    for number, artifact in enumerate(step.artifacts):
        yield f"artifacts[{number}].path", place_fault(artifact.path, is_windows=is_windows)
        for name, why in _artifact_faults(artifact):
            yield f"artifacts[{number}].{name}", why
    for name, actions in (("actions", actions_of(step)), ("undo_actions", undo_actions_of(step))):
        for number, action in enumerate(actions):
            # Only some words of a command are paths.
            places = () if isinstance(action, Words) else touched_by(action).places
            for path in places:
                yield f"{name}[{number}]", place_fault(path, is_windows=is_windows)


def _texts(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Every text of a document with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{place}[{number}]")


def _artifact_faults(artifact: Artifact) -> Iterator[tuple[str, str]]:
    yield "url", _address_fault(artifact.url)
    is_own = artifact.url.startswith("file:")
    yield (
        "sha256",
        "is empty, and the checksum alone identifies a downloaded file" if is_own and not artifact.sha256 else "",
    )
    is_sum, is_key = _SHA256.fullmatch(artifact.sha256), _FINGERPRINT.fullmatch(artifact.fingerprint)
    yield "sha256", "" if is_sum else f"is {_short(artifact.sha256)}, and not 64 hexadecimal digits"
    yield "fingerprint", "" if is_key else f"is {_short(artifact.fingerprint)}, and not 40 hexadecimal digits"
    yield "size", f"is {artifact.size} bytes" if artifact.size is not None and artifact.size < 0 else ""


def _address_fault(url: str) -> str:
    from urllib.parse import urlsplit  # noqa: PLC0415 (only documents that are read are judged)

    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"https", "http"} and parts.hostname and parts.port != 0
        is_usable = is_usable or (parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"))
    except ValueError as exc:
        return f"is {_short(url)}, and no address: {exc}"
    return "" if is_usable else f"is {_short(url)}, and not an https address"


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
