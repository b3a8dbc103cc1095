"""Comments in what is written: whatever a text holds, it stays behind the sign of a comment."""

from __future__ import annotations

from gpustack.model.plan import Plan
from gpustack.visible import one_line


def comment(text: str, *, width: int = 110, more: str = "# ") -> list[str]:
    """``text`` as lines that begin with "# "; those after the first begin with ``more``. Words are never broken."""
    found: list[str] = []
    line = "#"
    for word in one_line(text).split(" "):
        if len(line) + len(word) >= width and line not in {"#", more.rstrip()}:
            found.append(line)
            line = more + word
        else:
            line += f" {word}"
    return [*found, line] if line != "# " else []


def stack(plan: Plan) -> list[str]:
    """The stack as comments, a component each."""
    found = []
    for name, entry in plan.stack.items():
        flavour = f", {entry.flavour} kernel modules" if entry.flavour else ""
        found.append(f"# {entry.state:<9} {one_line(f'{name} {entry.change} ({entry.method}{flavour})')}")
    return found
