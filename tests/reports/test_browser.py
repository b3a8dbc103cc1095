"""The HTML report in a real browser with a phone's window: nothing sticks out, nothing is fetched, nothing runs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.reports.catalogue import REPORTS

from gpustack.verify import api

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).resolve().parents[2] / "ci" / "browser.py"

MEASURE = """
const wide = document.documentElement.scrollWidth;
const out = [...document.querySelectorAll("body *")].filter(
  (one) => one.checkVisibility() && one.getBoundingClientRect().right > window.innerWidth + 0.5);
return [window.innerWidth, wide, out.map((one) => one.outerHTML.slice(0, 120))];
"""
OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true;"


@pytest.fixture(scope="module")
def tools() -> Any:
    """The module ``ci/browser.py``."""
    spec = importlib.util.spec_from_file_location("browser", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser(tools: Any) -> Iterator[Any]:
    with tools.phone() as started:
        yield started


def asked_for(browser: Any) -> set[str]:
    """Every address that was asked for since the last call."""
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return {one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"}


@pytest.mark.parametrize("name", REPORTS)
def test_a_phone_shows_all_of_it(tools: Any, browser: Any, tmp_path: Path, name: str) -> None:
    page = tmp_path / "report.html"
    page.write_bytes(api.write(REPORTS[name], "html").encode())
    asked_for(browser)
    browser.get(page.as_uri())
    for step in ("", OPEN_ALL):
        browser.execute_script(step)
        inner, wide, out = browser.execute_script(MEASURE)
        assert (inner, wide, out) == (tools.WIDTH, tools.WIDTH, [])
    assert asked_for(browser) == {page.as_uri()}
    assert browser.get_log("browser") == []
    shown = browser.find_elements("css selector", "details")
    assert len(shown) == len(REPORTS[name].checks)


def test_what_failed_is_readable_without_a_touch(browser: Any, tmp_path: Path) -> None:
    """Reason and cure of a failure are shown and tall enough to be read; what holds is folded."""
    page = tmp_path / "report.html"
    page.write_bytes(api.write(REPORTS["every-status"], "html").encode())
    browser.get(page.as_uri())
    shown = browser.execute_script(
        "return [...document.querySelectorAll('details')].map((one) => [one.className, one.open,"
        " [...one.querySelectorAll('.fix')].some((fix) => fix.checkVisibility() && fix.offsetHeight >= 16)]);"
    )
    assert shown == [
        ["pass", False, False],
        ["fail", True, True],
        ["skip", False, False],
        ["error", True, True],
        ["pass", False, False],
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_the_ground(tools: Any, tmp_path: Path, dark: bool) -> None:
    """The contrast that WCAG 2.1 asks for text (4.5), by day and by night."""
    page = tmp_path / "report.html"
    page.write_bytes(api.write(REPORTS["every-status"], "html").encode())
    with tools.phone(dark=dark) as browser:
        browser.get(page.as_uri())
        assert browser.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches") is dark
        colours = browser.execute_script(
            "const canvas = document.createElement('div'); canvas.style.background = 'Canvas';"
            "document.body.append(canvas); const ground = getComputedStyle(canvas).backgroundColor;"
            "return [...document.querySelectorAll('summary b, .fix, h1')].map((one) =>"
            " [one.outerHTML, getComputedStyle(one).color, ground]);"
        )
    poor = [what for what, text, ground in colours if contrast(text, ground) < 4.5]
    assert len(colours) > 5
    assert poor == []


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of an "rgb(r, g, b)", as WCAG defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
