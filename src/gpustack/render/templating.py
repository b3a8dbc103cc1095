"""Fills the frame of a template with lines that were prepared and quoted in Python."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpustack.resources import folder

if TYPE_CHECKING:
    from jinja2 import Template


def fill(name: str, **values: object) -> str:
    """The template ``templates/NAME`` with these values. Raises jinja2's UndefinedError for a missing one."""
    return _template(name).render(values)


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 (27 ms that only the formats with templates pay)

    # The values are shell, YAML and Dockerfile text, already quoted: HTML escapes would damage them.
    environment = Environment(
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string((folder("templates") / name).read_text(encoding="utf-8"))
