"""The documentation as a site: it builds in strict mode, asks the network for nothing, and has every page."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from gpustack import resources
from gpustack.cli import COMMANDS
from gpustack.error_ids import ErrorId

ROOT = resources.folder("matrices").parent
sys.path.insert(0, str(ROOT / "ci"))
pytestmark = pytest.mark.gate


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a broken link, anchor or name of a page ends its build."""
    builder: Any = importlib.import_module("build_site")
    place = tmp_path_factory.mktemp("site")
    builder.make(place)
    return place


def test_every_page_is_in_the_site_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built
    for page in built:
        text = (site / page).read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"?([^\" >]+)", text)
        loaded += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|icon|preload|preconnect)[^>]*href=\"?([^\" >]+)", text)
        assert not [one for one in loaded if re.match(r"(https?:)?//", one)], page


def test_the_reference_has_every_command_and_the_page_of_errors_every_id(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"gpustack {name}" in commands for name in COMMANDS)
    assert "--max-facts-age" in commands
    errors = (site / "errors.html").read_text(encoding="utf-8")
    assert all(f"{one}" in errors for one in get_args(ErrorId))


def test_a_page_without_a_line_in_the_navigation_is_in_its_last_section(tmp_path: Path) -> None:
    builder: Any = importlib.import_module("build_site")
    for name in ("index.md", "new.md"):
        (tmp_path / name).write_text("# New\n")
    assert builder.more([{"Home": ["index.md"]}], tmp_path) == [{"More": ["new.md"]}]
