"""What the facts say about a version, on one screen."""

import textwrap
from collections import Counter
from typing import Any, get_args

from gpustack.model.facts import Rule, Strength, subject_of

LINES = 40
"""Lines of a screen that can be read without scrolling: the limit of the summary."""

_HEAD, _TABLES = 8, 15
"""The limits for releases and tables; rules get the rest."""

_PLACES = ("repo", "platform", "distro", "method", "family", "os", "cuda")
"""Columns that say what a row applies to, the most specific first."""


def summary(rows: list[dict[str, Any]], component: str, asked: str, width: int) -> str:
    """Releases, rules and the other rows of ``asked`` ("cuda==13.0.2") in at most `LINES` lines of ``width``."""
    width = max(width, 40)
    own = f"{component}.releases"
    rules = [row for row in rows if "of" in row]
    tables = _tables([row for row in rows if "of" not in row and row["in"] != own], width)
    head = _releases(component, [row for row in rows if row["in"] == own], width)
    last = ["", "Every row with its sources:", f"  gpustack matrix show '{asked}' --all"]
    left = LINES - len(head) - len(tables) - len(last)
    return "\n".join([*head, *_rules(rules, component, width, left), *tables, *last])


def _releases(component: str, rows: list[dict[str, Any]], width: int) -> list[str]:
    """The columns of one release, or one line for each of several."""
    from gpustack.solve.words import title

    texts = [f"{title(component)} {row['version']}: {_columns(row)}" for row in rows]
    if len(texts) == 1:
        return _some(_wrapped(texts[0], width, "  "), _HEAD, "lines")
    return _some([_clipped(text, width) for text in texts], _HEAD, "releases")


def _columns(row: dict[str, Any]) -> str:
    unread = {"in", "version", "src", "known", "note"}
    return "; ".join(
        f"{name} {value_text(value)}" for name, value in row.items() if name not in unread and "sha256" not in name
    )


def _rules(rows: list[dict[str, Any]], component: str, width: int, lines: int) -> list[str]:
    """What the version requires, then what requires it, newest first; recommendations come last."""
    own = [row for row in rows if subject_of(row["of"]) == component]
    others = [row for row in reversed(rows) if subject_of(row["of"]) != component]
    texts = [_rule(row) for row in (*sorted(own, key=_weight), *sorted(others, key=_weight))]
    if not texts:
        return []
    return ["Rules:", *(_clipped(f"  {text}", width) for text in _some(list(dict.fromkeys(texts)), lines - 1, "rules"))]


def _weight(row: dict[str, Any]) -> int:
    return get_args(Strength).index(row.get("strength", "optional"))


def _rule(row: dict[str, Any]) -> str:
    """A rule as a short sentence; the full text of its row is shown by `check`, which has room for it."""
    import msgspec

    from gpustack.solve.words import in_words, rule_in_words, title

    fields = {key: value for key, value in row.items() if key not in {"in", "says"}}
    rule = msgspec.convert(fields, Rule, strict=False)
    name = subject_of(rule.of)
    clauses = rule.of[len(name) :]
    where = ", ".join(f"{key} {value_text(value)}" for key, value in row.get("when", {}).items())
    subject = f"{title(name)} {in_words(clauses)}" if clauses else title(name)
    return f"{rule_in_words(rule, subject)}{f' ({where})' if where else ''}"


def _tables(rows: list[dict[str, Any]], width: int) -> list[str]:
    """The number of rows in each table that apply to the version, and their folders, platforms or methods."""
    counts = Counter(row["in"] for row in rows)
    if not counts:
        return []
    longest = max(map(len, counts))
    lines = []
    for table, count in counts.items():
        values = [row for row in rows if row["in"] == table]
        column = next((name for name in _PLACES if any(name in row for row in values)), None)
        named = dict.fromkeys(value_text(row[column]) for row in values if column in row) if column else {}
        rows_text = f"{count:4} row{'s' if count > 1 else ' '}"
        lines.append(_clipped(f"  {table:{longest}} {rows_text}  {', '.join(named)}".rstrip(), width))
    return ["Other facts:", *_some(lines, _TABLES - 1, "tables")]


def _some(lines: list[str], most: int, name: str) -> list[str]:
    """The first ``most`` lines; the last one counts the rest."""
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"  and {len(lines) - most + 1} more {name}"]


def _wrapped(text: str, width: int, rest: str) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=rest, break_on_hyphens=False)


def _clipped(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 3]}..."


def value_text(value: object) -> str:
    """A value of a row for people: lists and maps without quotes."""
    if isinstance(value, list | tuple):
        return ",".join(value_text(item) for item in value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {value_text(v)}" for k, v in value.items()) + "}"
    return str(value)
