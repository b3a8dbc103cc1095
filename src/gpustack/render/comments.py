"""Comments in output: whatever a text contains, every line of it stays a comment."""

from __future__ import annotations

from gpustack.model.plan import Plan
from gpustack.visible import one_line


def comment(text: str, *, width: int = 110, more: str = "# ") -> list[str]:
    """Return ``text`` as lines that begin with "# "; all but the first begin with ``more``. Words are not broken."""
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
    """The stack as comments, one per component."""
    found = []
    for name, entry in plan.stack.items():
        flavour = f", {entry.flavour} kernel modules" if entry.flavour else ""
        found.append(f"# {entry.state:<9} {one_line(f'{name} {entry.change} ({entry.method}{flavour})')}")
    return found
