"""Fills the frame of a template with lines that were prepared and quoted in Python.

A site lays its own templates over ours (``--templates``): they are checked before anything is done with them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpustack.errors import UsageError
from gpustack.resources import folder, site_templates, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2 import BaseLoader, Environment

_OURS = "gpustack"
"""A site's template includes the built-in one by ``{% include "gpustack/NAME" %}``."""
_DOCUMENTED = "docs/templates.md lists the templates and their variables"
_CONTENT = {
    "ansible/playbook.yml.j2": {"tasks", "handlers", "title", "hosts"},
    "cloud-init/hook.sh.j2": {"install", "resume", "earlier", "boot_id", "paused"},
    "cloud-init/user-data.j2": {"blocks"},
    "dockerfile/Dockerfile.j2": {"stages"},
}
"""The variables without which a document would lack steps of its plan."""
_FUNCTION = re.compile(r"^(?:function )?([A-Za-z_-]+)(?:\(\)| ?\(| ?\{)", re.MULTILINE)


def fill(name: str, **values: object) -> str:
    """The template ``templates/NAME`` with these values. Raises jinja2's UndefinedError for a missing one.

    Raises UsageError (exit 2) with file and line where a site's template fails.
    """
    site = site_templates.get()
    from jinja2 import TemplateError  # noqa: PLC0415 (27 ms that only the formats with templates pay)

    try:
        return _environment(site).get_template(name).render(values)
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as exc:
        if site is None:
            raise
        _refuse(site / name, _line_of(exc, str(site)), str(exc))


@cache
def _environment(site: Path | None) -> Environment:
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined  # noqa: PLC0415

    ours = FileSystemLoader(folder("templates"))
    kind: type[Environment] = Environment
    loader: BaseLoader = ours
    if site is not None:
        from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 (only with --templates)

        kind = SandboxedEnvironment
        loader = ChoiceLoader([FileSystemLoader(site), ours, PrefixLoader({_OURS: ours})])
    # The values are shell, YAML and Dockerfile text, already quoted: HTML escapes would damage them.
    return kind(
        loader=loader,
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def check_folder(site: Path) -> None:
    """Raise UsageError (exit 2), with file and line, for a folder whose templates cannot be laid over ours."""
    if not site.is_dir():
        msg = "is not a folder"
        raise UsageError(msg, code="unreadable-folder", where=str(site), hint=_DOCUMENTED)
    ours = {str(path.relative_to(folder("templates"))) for path in folder("templates").rglob("*") if path.is_file()}
    for path in sorted(one for one in site.rglob("*") if one.is_file()):
        name = path.relative_to(site).as_posix()
        if name.startswith("include/"):
            continue
        if name not in ours:
            _refuse(path, 0, f"there is no template {name!r} to replace; files to include belong into include/")
        _check(site, name)


def _check(site: Path, name: str) -> None:
    """Check one template of a site."""
    try:
        text = template(name)
    except (OSError, UnicodeDecodeError) as exc:
        _refuse(site / name, 0, f"cannot be read: {exc}")
    if name.endswith(".j2"):
        _check_variables(site, name, text)
    elif name.endswith((".sh", ".ps1")):
        own = (folder("templates") / name).read_text(encoding="utf-8")
        lacking = sorted(set(_FUNCTION.findall(own)) - set(_FUNCTION.findall(text)))
        if lacking:
            _refuse(site / name, len(text.splitlines()), f"lacks functions that scripts call: {', '.join(lacking)}")


def _check_variables(site: Path, name: str, text: str) -> None:
    """A template uses no variable that it does not get, and all that hold the steps of a plan."""
    from jinja2 import TemplateSyntaxError, meta, nodes  # noqa: PLC0415 (only with --templates)

    environment = _environment(site)
    try:
        tree = environment.parse(text)
    except TemplateSyntaxError as exc:
        _refuse(site / name, exc.lineno, str(exc.message))
    given = meta.find_undeclared_variables(environment.parse((folder("templates") / name).read_text(encoding="utf-8")))
    used = meta.find_undeclared_variables(tree)
    for variable in sorted(used - given):
        line = next((one.lineno for one in tree.find_all(nodes.Name) if one.name == variable), 0)
        _refuse(site / name, line, f"has no variable {variable!r}; it has {', '.join(sorted(given))}")
    lacking = sorted(_CONTENT.get(name, set()) - used)
    if lacking and not any(tree.find_all((nodes.Include, nodes.Extends))):
        _refuse(site / name, len(text.splitlines()), f"does not use {', '.join(lacking)}: steps would be missing")


def _lines(exc: BaseException, begin: str) -> Iterator[int]:
    """The lines of files below ``begin`` at which an error passed, the innermost last."""
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(begin):
            yield trace.tb_lineno
        trace = trace.tb_next


def _line_of(exc: BaseException, begin: str) -> int:
    own: Any = getattr(exc, "lineno", None)
    return own if isinstance(own, int) else next(reversed([*_lines(exc, begin)]), 0)


def _refuse(path: Path, line: int, why: str) -> NoReturn:
    raise UsageError(why, code="invalid-template", where=f"{path}:{line}" if line else str(path), hint=_DOCUMENTED)
