"""The form of the matrix files: one row a line, sorted by its key, written in one way. ``--check`` only compares.

``.venv/bin/python ci/facts_form.py`` writes every file of ``matrices`` in this form: a change is one line of a diff,
and who adds a row need not look for its place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gpustack.matrix.layout import matrix_files
from gpustack.matrix.load import parse_yaml

ROOT = Path(__file__).resolve().parents[1]

_PLAIN = re.compile(
    r"[A-Za-z0-9/.]([A-Za-z0-9 _./()+=~$*;:'-]*[A-Za-z0-9_./()+=~$*'-])?|https?://[^\s,\[\]{}\"'|*<>?]+"
)
_NUMBERS = re.compile(r"(\d+)")


def canonical(text: str) -> str:
    """A matrix file in the one form. Raises ValueError where it is no YAML."""
    return written(text[: text.index("schema:")], parse_yaml(text))


def written(head: str, document: Any) -> str:  # noqa: ANN401 (a parsed matrix file)
    """A matrix file in the one form; ``head`` is the remarks above it."""
    lines = [f"{name}: {scalar(document[name])}" for name in ("schema", "subject", "about")]
    lines += ["sources:", *(f"  {key}: {flow(document['sources'][key])}" for key in document["sources"])]
    if "groups" in document:
        lines += ["groups:", *(f"  {key}: {flow(document['groups'][key])}" for key in sorted(document["groups"]))]
    lines.append("tables:")
    for name, table in document["tables"].items():
        lines += [f"  {name}:", f"    about: {scalar(table['about'])}", f"    key: {flow(table['key'])}"]
        lines += [f"    {name}: {flow(table[name])}" for name in ("fields", "filled", "readers") if name in table]
        lines.append("    rows:")
        lines += [f"      - {flow(row)}" for row in in_order(table["rows"], table["key"])]
    return head + "\n".join(lines) + "\n"


def in_order(rows: Iterable[Mapping[str, Any]], key: Iterable[str]) -> list[Mapping[str, Any]]:
    """Rows by their key columns, numbers in a text counted as numbers."""
    columns = list(key)
    return sorted(rows, key=lambda row: [_rank(row.get(name, "")) for name in columns])


def _rank(value: object) -> list[tuple[int, int, str]]:
    words = _NUMBERS.split(" ".join(value) if isinstance(value, list) else str(value))
    return [(0, int(word), "") if word.isdigit() else (1, 0, word) for word in words if word]


def flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(one) for one in value) + "]"
    return scalar(str(value))


def scalar(text: str) -> str:
    """A text as it is where YAML reads it back, else in double quotes."""
    if _PLAIN.fullmatch(text) and ": " not in text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def main(arguments: list[str]) -> int:
    """Write the files in the form, or with ``--check`` name those that are not; 1 where there are such files."""
    code = 0
    for path in matrix_files(ROOT / "matrices").values():
        old = path.read_text(encoding="utf-8")
        new = canonical(old)
        if old == new:
            continue
        if "--check" in arguments:
            print(f"{path.relative_to(ROOT)}: not in the form of ci/facts_form.py")
            code = 1
        else:
            path.write_text(new, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
