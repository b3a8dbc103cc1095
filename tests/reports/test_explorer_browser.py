"""The compatibility explorer in Chromium, opened from a file: by keyboard, on a phone, with axe's rules for everybody."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gpustack import resources
from gpustack.matrix.index import load_matrix

pytestmark = pytest.mark.slow
CI = resources.folder("matrices").parent / "ci"
CHOICES = {
    "nothing": {},
    "incompatible": {"gpu": "GeForce GTX 1050", "os": "ubuntu24.04", "cuda": "13.0.2", "driver": "580.95.05"},
    "compatible": {"gpu": "H200", "os": "rhel9", "cuda": "12.8.1", "driver": "580.95.05", "cudnn": "9.8.0.87"},
    "a framework": {"gpu": "GeForce GTX 1050", "os": "debian12", "framework": "torch", "build": "2.9.1"},
}
AXE = "const done = arguments[0]; axe.run().then((found) => done([...found.violations, ...found.incomplete].map((one) => one.id)));"
SHOWN = "return document.getElementById('verdict').textContent;"
HINTS = "return document.querySelectorAll('#answer button').length;"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    sys.path.insert(0, str(CI))
    builder = importlib.import_module("build_explorer")
    place = tmp_path_factory.mktemp("explorer") / "explorer.html"
    place.write_text(builder.page(builder.export(load_matrix(has_site=False))), encoding="utf-8")
    return place.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sys.path.insert(0, str(CI))
    with importlib.import_module("browser").phone() as started:
        yield started


def opened(browser: Any, page: str, choice: dict[str, str]) -> None:
    browser.get("about:blank")
    browser.get(f"{page}#{urlencode(choice)}")


@pytest.mark.parametrize("name", CHOICES)
def test_a_phone_shows_all_of_it_and_axe_finds_nothing(browser: Any, page: str, modules: Path, name: str) -> None:
    browser.get_log("browser")
    opened(browser, page, CHOICES[name])
    shown = browser.execute_script(SHOWN)
    assert {"nothing": "Choose", "compatible": "✓"}.get(name, "✗") in shown, shown
    if name == "incompatible":
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(browser, 30).until(lambda one: one.execute_script(HINTS))
    inner, wide = browser.execute_script("return [window.innerWidth, document.documentElement.scrollWidth];")
    assert wide <= inner
    browser.execute_script((modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert browser.execute_async_script(AXE) == []
    assert browser.get_log("browser") == []


def test_the_keyboard_chooses_and_takes_a_hint(browser: Any, page: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.wait import WebDriverWait

    opened(browser, page, {"gpu": "L4", "os": "ubuntu24.04", "driver": "535.104.05"})
    cuda = browser.find_element(By.ID, "c-cuda")
    cuda.send_keys("13.0.2")
    cuda.send_keys(Keys.TAB)
    assert browser.execute_script(SHOWN).startswith("✗")
    WebDriverWait(browser, 30).until(lambda one: one.execute_script(HINTS))
    button = browser.find_element(By.CSS_SELECTOR, "#answer button")
    assert "compatible with" in button.text
    button.send_keys(Keys.ENTER)
    assert browser.execute_script(SHOWN).startswith("✓")
    assert browser.switch_to.active_element.get_attribute("id") == "verdict"
    assert "cuda=" in browser.current_url, "the address keeps the choice"
