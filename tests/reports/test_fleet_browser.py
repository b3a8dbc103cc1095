"""The page of a fleet in Chromium, opened from a file: by keyboard, on a phone, with axe's rules, and with 10,000 hosts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack import resources
from gpustack.fleet.merge import ENDED
from gpustack.fleet.writers import write
from gpustack.model.fleet_report import Ended, FleetCheck, FleetHost, FleetReport

pytestmark = pytest.mark.slow
CI = resources.folder("matrices").parent / "ci"
AXE = "const done = arguments[0]; axe.run().then((found) => done([...found.violations, ...found.incomplete].map((one) => one.id)));"
COUNT = "return document.getElementById('count').textContent;"
COMPONENTS = ("driver", "cuda", "cudnn", "nccl", "container-toolkit")


def simulated(count: int) -> FleetReport:
    """Hosts of which each 50th has a fault of its own, and each 400th gave no report."""
    hosts = tuple(map(_host, range(count)))
    summary = {status: sum(one.status == status for one in hosts) for status in ENDED}
    return FleetReport(hosts=hosts, summary={**summary, "total": count})


def _host(number: int) -> FleetHost:
    name = f"node{number:05}"
    if number % 400 == 1:
        return FleetHost(name=name, status="error", reason="ssh: connect to host: timed out")
    is_bad = number % 50 == 2
    status: Ended = "fail" if is_bad else "pass"
    checks = [
        FleetCheck(id=f"{component}.{check}", component=component, status="pass", duration_s=0.1)
        for component in COMPONENTS
        for check in ("found", "version", "fit", "driver", "gpu", "libraries", "run")
    ]
    if is_bad:
        reason = f"GPU {number % 8} of {name} fell off the bus"
        checks[3] = FleetCheck(id="driver.gpus", component="driver", status="fail", reason=reason, fix="`sudo reboot`")
    return FleetHost(
        name=name,
        status=status,
        system="Rocky Linux 9.4 x86_64",
        gpus="8 x NVIDIA H100 80GB HBM3",
        level="smoke",
        stack=dict.fromkeys(COMPONENTS, f"13.{number % 40}"),
        checks=tuple(checks),
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("fleet") / "fleet.html"
    place.write_text(write(simulated(10_000), "html"), encoding="utf-8")
    return place.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sys.path.insert(0, str(CI))
    with importlib.import_module("browser").phone() as started:
        yield started


def test_a_phone_opens_10000_hosts_and_axe_finds_nothing(browser: Any, page: str, modules: Path) -> None:
    browser.get_log("browser")
    browser.get(page)
    assert browser.execute_script(COUNT) == "10000 of 10000 hosts, 100 shown"
    inner, wide = browser.execute_script("return [window.innerWidth, document.documentElement.scrollWidth];")
    assert wide <= inner
    browser.execute_script((modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert browser.execute_async_script(AXE) == []
    browser.execute_script("document.querySelector('#rows td button').click();")
    assert browser.execute_async_script(AXE) == []
    assert browser.get_log("browser") == []


def test_the_keyboard_filters_and_opens_a_cause(browser: Any, page: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.get(page)
    words = browser.find_element(By.ID, "words")
    words.send_keys("node00052")
    assert browser.execute_script(COUNT) == "1 of 10000 hosts, 1 shown"
    cell = browser.find_element(By.CSS_SELECTOR, "#rows button[aria-label^='driver']")
    cell.send_keys(Keys.ENTER)
    dialog = browser.find_element(By.ID, "detail")
    assert "GPU 4 of node00052 fell off the bus" in dialog.text
    assert "sudo reboot" in dialog.text
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()
    assert browser.switch_to.active_element == cell, "the place in the table is kept"


@pytest.mark.parametrize(
    ("status", "component", "count"), [("bad", "", 225), ("error", "", 25), ("fail", "0", 200), ("fail", "1", 0)]
)
def test_filters_never_hide_a_host_without_results(
    browser: Any, page: str, status: str, component: str, count: int
) -> None:
    browser.get(page)
    for name, value in (("status", status), ("component", component)):
        browser.execute_script(
            "const one = document.getElementById(arguments[0]); one.value = arguments[1];"
            "one.dispatchEvent(new Event('input'));",
            name,
            value,
        )
    assert browser.execute_script(COUNT).startswith(f"{count} of 10000 hosts")


def test_a_cause_shows_its_hosts(browser: Any, page: str) -> None:
    browser.get(page)
    browser.execute_script("document.querySelector('#causes button').click();")
    assert browser.execute_script(COUNT) == "25 of 10000 hosts, 25 shown"
    assert browser.execute_script("return document.activeElement.id;") == "words"
