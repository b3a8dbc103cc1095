"""The site of the documentation in Chromium, opened from a file: on a phone, with axe's rules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack import resources

pytestmark = pytest.mark.slow
CI = resources.folder("matrices").parent / "ci"
PAGES = ("index", "tutorial", "install", "fleets", "limits", "shell-and-ansible", "reference/commands")
AXE = (
    "const done = arguments[0]; axe.run().then((found) => done([...found.violations, ...found.incomplete]"
    ".map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 120))])));"
)
UNREACHED = (
    "return [...document.querySelectorAll('pre, pre > code')].filter((one) => one.scrollWidth > one.clientWidth"
    " && getComputedStyle(one).overflowX !== 'visible' && one.tabIndex < 0).length;"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sys.path.insert(0, str(CI))
    place = tmp_path_factory.mktemp("site")
    importlib.import_module("build_site").make(place)
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sys.path.insert(0, str(CI))
    with importlib.import_module("browser").phone() as started:
        yield started


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_and_the_keyboard_reaches_what_scrolls(
    browser: Any, site: Path, modules: Path, name: str
) -> None:
    browser.get((site / f"{name}.html").as_uri())
    inner, wide = browser.execute_script("return [window.innerWidth, document.documentElement.scrollWidth];")
    assert wide <= inner
    assert browser.execute_script(UNREACHED) == 0
    browser.execute_script((modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert browser.execute_async_script(AXE) == []
