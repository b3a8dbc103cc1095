"""The picture of a plan in README and docs: what the program prints, as SVG.

.venv/bin/python ci/plan_picture.py docs/images/plan.svg
"""

from __future__ import annotations

import shlex
import sys
from contextlib import redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path

from gpustack.cli import main

COMMAND = 'gpustack plan cuda cudnn --os ubuntu24.04 --gpu "GTX 1080 Ti"'
MOST_LINES = 34
ADVANCE, LEADING, MARGIN = 8.4, 20, 16
INK, GROUND, SIGNS = "#e6e6e6", "#1b1e24", {"+": "#7ad97a", "~": "#e5c76b", "-": "#f08b8b", "$": "#8fc2ff"}


def printed() -> list[str]:
    """The first lines of the plan."""
    out = StringIO()
    with redirect_stdout(out):
        main(shlex.split(COMMAND)[1:])
    lines = out.getvalue().splitlines()
    return [f"$ {COMMAND}", *lines[: MOST_LINES - 2], f"... {len(lines) - MOST_LINES + 2} more lines"]


def drawn(lines: list[str]) -> str:
    """The lines as SVG; signs of what changes are coloured, and say it without colour too."""
    width = round(max(map(len, lines)) * ADVANCE + 2 * MARGIN)
    height = len(lines) * LEADING + 2 * MARGIN
    named = f'role="img" aria-label="{escape(COMMAND)}"'
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LEADING * (place + 0.75):g}" xml:space="preserve">{_line(line)}</text>'
        for place, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {named}>',
            f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>',
            f'<g fill="{INK}" font-family="ui-monospace, DejaVu Sans Mono, Menlo, monospace" font-size="14">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _line(line: str) -> str:
    head = line.lstrip(" 0123456789")[:1]
    if head not in SIGNS:
        return escape(line)
    before, after = line.split(head, 1)
    return f'{escape(before)}<tspan fill="{SIGNS[head]}">{head}</tspan>{escape(after)}'


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawn(printed()), encoding="utf-8")
