"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests import shared, tiers

# How long an example takes says how busy the machine is, not whether the program is right.
settings.register_profile("by no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("by no clock")

# No update that this machine has, and no warning of facts that are older by the day on which the tests run.
os.environ["GPUSTACK_FACTS"] = "/nonexistent/gpustack/facts"
os.environ["GPUSTACK_MAX_FACTS_AGE"] = "none"

# A worker keeps the facts and hundreds of plans to its end: looking for garbage among them took a sixth of its time.
gc.freeze()
gc.set_threshold(100_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; review the difference")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    tiers.with_slow_tests(is_slow="not slow" not in config.option.markexpr.replace("slow or not slow", ""))
    if hasattr(config, "workerinput"):
        shared.use_folder(Path(config.option.basetemp).parent / "shared")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(terminal))


class _Failures:
    """Names each failure when it happens: the tracebacks come when all tests have run."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._terminal.write_line(f"\nfailed: {report.nodeid}: {crash.message if crash else report.longrepr}")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Programs started here heed an interrupt, even where the tests run behind a shell's ``&``, which has it ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
