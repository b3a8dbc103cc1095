"""What the tests of detectors share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.finding_goldens import Findings


@pytest.fixture(scope="session")
def findings(request: pytest.FixtureRequest) -> Iterator[Findings]:
    """The goldens of findings."""
    found = Findings(update=bool(request.config.getoption("--update-golden")))
    yield found
    found.write()
