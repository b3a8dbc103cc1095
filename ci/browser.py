"""A page as a phone shows it, in headless Chromium.

.venv/bin/python ci/browser.py REPORT.json PICTURE.png

writes the HTML report of a saved JSON report and takes a picture of its beginning: the picture in docs/verify.md.

.venv/bin/python ci/browser.py --fleet HOSTS

prints how long the page of that many simulated hosts takes from opening the file until its table answers.
It needs Debian's packages chromium and chromium-driver.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

WIDTH, HEIGHT = 400, 900
"""A phone's window, in CSS pixels."""

_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def phone(*, dark: bool = False) -> Iterator[Chrome]:
    """A browser with a phone's window, which writes down what it asks of the network."""
    options = ChromeOptions()
    with tempfile.TemporaryDirectory() as profile:
        for switch in (*_SWITCHES, f"--user-data-dir={profile}", *(["--force-dark-mode"] if dark else [])):
            options.add_argument(switch)
        metrics = {"width": WIDTH, "height": HEIGHT, "pixelRatio": 2.0, "mobile": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        options.binary_location = "/usr/bin/chromium"
        browser = Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            browser.get("about:blank")  # the browser's own first page goes on loading
            yield browser
        finally:
            browser.quit()


def main(report: Path, picture: Path) -> None:
    import msgspec

    from gpustack.model.results import Report
    from gpustack.verify.api import write

    with tempfile.TemporaryDirectory() as folder, phone() as browser:
        page = Path(folder) / "report.html"
        page.write_text(write(msgspec.json.decode(report.read_bytes(), type=Report), "html"), encoding="utf-8")
        browser.get(page.as_uri())
        picture.write_bytes(browser.get_screenshot_as_png())


def fleet(count: int) -> None:
    """Time the page of a fleet, opened five times."""
    import time

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.reports.test_fleet_browser import COUNT, simulated

    from gpustack.fleet.writers import write

    with tempfile.TemporaryDirectory() as folder, phone() as browser:
        page = Path(folder) / "fleet.html"
        page.write_text(write(simulated(count), "html"), encoding="utf-8")
        times = []
        for _ in range(5):
            browser.get("about:blank")
            start = time.monotonic()
            browser.get(page.as_uri())
            shown = browser.execute_script(COUNT)
            times.append(time.monotonic() - start)
        print(f"{shown}; {page.stat().st_size / 1e3:.0f} kB; seconds: {', '.join(f'{one:.2f}' for one in times)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fleet"]:
        fleet(int(sys.argv[2]))
        sys.exit()
    main(Path(sys.argv[1]), Path(sys.argv[2]))
