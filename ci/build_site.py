"""The documentation as a site that opens from a folder: built and read without a network.

.venv/bin/python ci/build_site.py FOLDER

The pages are those of docs/, in the order of mkdocs.yml; a page that has no line there appears under "More". Added are
the reference of commands (from their declarations), the schemas, the changes, and the compatibility explorer.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

os.environ.setdefault("DISABLE_MKDOCS_2_WARNING", "true")  # an advertisement of the theme

from mkdocs.commands.build import build
from mkdocs.config import load_config

from build_explorer import page as explorer_page
from explorer.facts import export
from gpustack.cli import COMMANDS, declared, main
from gpustack.cli.declare import REQUIRED, Argument, Command, Parameter
from gpustack.matrix.index import load_matrix

ROOT = Path(__file__).resolve().parents[1]
EXPLORER = "compatibility.html"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads from the network to search in pages that were opened from a file."""
UNNAMED = 'data-md-component="search" role="dialog"'
"""A part of the theme's pages that has no name for those who hear them."""
BLOCK = re.compile(r"<pre(?=>(?:<span></span>)?<code)")
"""A block of code: where it is wider than the window, the keyboard has to reach it to scroll it.

The theme does that for those that it has shown already, on an element of which extra.css takes the scrolling.
"""
OWN_SHIM = "assets/javascripts/file-worker.js"
KINDS = ("host", "check", "plan", "lock", "report", "facts")


def make(place: Path) -> None:
    """Build the site into a folder. Raises mkdocs' error for a link, an anchor or a page that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "docs"
        shutil.copytree(ROOT / "docs", docs)
        add_pages(docs)
        config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(docs), site_dir=str(place), strict=True)
        config.nav = [*(config.nav or []), *more(config.nav or [], docs)]
        build(config)
    shutil.copy(ROOT / "ci" / "site" / "file-worker.js", place / OWN_SHIM)
    for page in place.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        own = f"{'../' * (len(page.relative_to(place).parts) - 1)}{OWN_SHIM}"
        for before, after in ((SHIM, own), (UNNAMED, f'{UNNAMED} aria-label="Search"')):
            text = text.replace(before, after)
        text = BLOCK.sub('<pre tabindex="0"', text)
        page.write_text(text, encoding="utf-8")


def add_pages(docs: Path) -> None:
    """The pages that are made and not written."""
    reference = docs / "reference"
    reference.mkdir()
    (reference / "commands.md").write_text(commands_page(), encoding="utf-8")
    (reference / "schemas.md").write_text(schemas_page(reference), encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (docs / "changes.md").write_text(changes.replace("](docs/", "]("), encoding="utf-8")
    shutil.copy(ROOT / "ci" / "site" / "extra.css", docs)
    (docs / EXPLORER).write_text(explorer_page(export(load_matrix(has_site=False))), encoding="utf-8")
    about = docs / "explorer.md"
    head, rest = about.read_text(encoding="utf-8").split("\n\n", 1)
    about.write_text(f"{head}\n\n[Open the explorer]({EXPLORER}){{ .md-button }}\n\n{rest}", encoding="utf-8")


def more(nav: list[Any], docs: Path) -> list[Any]:
    """The pages that the navigation does not name, as its last section."""
    named = set(_paths(nav))
    found = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    rest: list[Any] = [path for path in found if path not in named]
    return [{"More": rest}] if rest else []


def _paths(entry: Any) -> list[str]:  # noqa: ANN401 (the tree of mkdocs.yml)
    if isinstance(entry, dict):
        return [path for value in entry.values() for path in _paths(value)]
    return [path for one in entry for path in _paths(one)] if isinstance(entry, list) else [entry]


def commands_page() -> str:
    """Every command with its arguments and options, as it declares them."""
    common = {one.name for one in declared("schema").parameters()} - {"kind"}
    parts = ["# Commands", "Made from the declarations of the program; `gpustack COMMAND --help` prints the same."]
    for name in COMMANDS:
        parts += _command(declared(name), common)
    rows = [one for one in declared("schema").parameters() if one.name in common]
    parts += ["## Options of every command", _table(rows)]
    return "\n\n".join(parts) + "\n"


def _command(command: Command, common: set[str]) -> list[str]:
    text = " ".join((command.function.__doc__ or "").split())
    own = [one for one in command.parameters() if one.name not in common]
    table = [_table(own)] if own else []
    return [f"## gpustack {command.name}", text, f"```\n{command.example}\n```", *table]


def _table(rows: list[Parameter]) -> str:
    lines = ["| option | what it does | default |", "|---|---|---|"]
    for one in rows:
        form = one.form
        names = [form.metavar] if isinstance(form, Argument) else list(form.names)
        value = "" if isinstance(form, Argument) or not form.metavar else f" {form.metavar}"
        spelled = ", ".join(f"`{name}{value}`" for name in names)
        default = "required" if one.default is REQUIRED else _shown(one.default)
        text = (form.help or "").replace("|", r"\|")
        lines.append(f"| {spelled}{' (repeatable)' if one.is_list else ''} | {text} | {default} |")
    return "\n".join(lines)


def _shown(default: object) -> str:
    return "" if default in (None, False, 0, []) else f"`{getattr(default, 'value', default)}`"


def schemas_page(folder: Path) -> str:
    """The schemas as files, and a page that names them."""
    lines = ["# Schemas", "The JSON Schema of each document, as `gpustack schema KIND` prints it.", ""]
    for kind in KINDS:
        text = _printed("schema", kind)
        (folder / f"{kind}.schema.json").write_text(text, encoding="utf-8")
        fields = ", ".join(f"`{name}`" for name in sorted(_properties(json.loads(text))))
        lines += [f"## {kind}", "", f"[{kind}.schema.json]({kind}.schema.json): {fields}", ""]
    return "\n".join(lines)


def _properties(schema: dict[str, Any]) -> list[str]:
    """The keys of the document itself."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return list(schema["$defs"].get(name, {}).get("properties", schema.get("properties", {})))


def _printed(*words: str) -> str:
    from contextlib import redirect_stdout

    out = StringIO()
    with redirect_stdout(out):
        main(list(words))
    return out.getvalue()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    make(Path(sys.argv[1]))
