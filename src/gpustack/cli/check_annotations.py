"""The verdict of `check` as GitHub workflow commands, at the lines of a Dockerfile where there is one."""

from __future__ import annotations

from gpustack.model.image import ImageContent
from gpustack.model.resolution import Verdict
from gpustack.visible import one_line, visible


def annotate(verdict: Verdict, content: ImageContent | None) -> str:
    """One ``::error``, ``::warning`` or ``::notice`` line for each finding, and the verdict as plain text."""
    hints = "".join(f"\nhint: {text}" for text in verdict.hints)
    lines = [
        _line("error", " and ".join(one.between), one.reason + hints, _place(content, one.reason))
        for one in verdict.conflicts
    ]
    lines += [_line("warning", "unknown", one.reason, _place(content, one.reason)) for one in verdict.unknown]
    lines += [_line("notice", "compatible with a warning", text, _place(content, text)) for text in verdict.warnings]
    return "\n".join([*lines, verdict.verdict])


def _place(content: ImageContent | None, text: str) -> str:
    """File and line of a Dockerfile: of the variable or wheel that a sentence names, else of the base."""
    if content is None or content.form != "Dockerfile":
        return ""
    named = next((line for name, line in content.lines.items() if name.isupper() and name in text), None)
    wheel = content.lines.get("wheels") if any(one in text for one in (*content.wheels, *content.indexes)) else None
    line = named or wheel or content.lines.get("base") or content.lines.get("wheels") or 1
    return f"file={_property(content.name)},line={line},"


def _line(command: str, title: str, text: str, place: str) -> str:
    return f"::{command} {place}title={_property(one_line(title))}::{_message(text)}"


def _message(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D")).replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
