"""Lines that a program marks as failures, and sentences of the person who pasted a text."""

from __future__ import annotations

from gpustack.patterns import later

LEVEL = later(
    r"level=(?:error|fatal|panic)|\"level\":\s*\"(?:error|fatal)\"|\b[EF]\d{4} \d\d:|\[(?:error|fatal|critical)\]|"
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|\(EE\)|<err>|\berror:|\bfatal:|\bpanic:|Error:|\bWARN (?:NET|Cuda|Call)",
)
"""How programs mark the lines of failures."""

_PERSON = later(
    r"\b(?:I|I'm|I've|[Mm]y|we|[Oo]ur|you|[Aa]nyone|[Pp]lease|[Hh]elp|How|Why|When|[Tt]ried|trying|works?|working|"
    r"doesn't)\b"
)
_FEW = 4
"""A line of fewer words is no sentence of a person."""


def is_spoken(text: str, line: str) -> bool:
    """Whether a line of a pasted text is its title, or a sentence of who pasted it."""
    words = line.strip()
    if len(words.split()) < _FEW:
        return False
    by_person = _PERSON.search(words) is not None
    return by_person and words.endswith((":", "?")) if LEVEL.search(words) else by_person or text.startswith(words)
