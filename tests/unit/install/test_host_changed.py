"""A plan for a described host is valid for every host of that system, and for no other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.plan.making import host, plan

from gpustack.errors import UsageError
from gpustack.install.run.host_changed import demand_same_host


@pytest.mark.parametrize(("planned", "found"), [("rocky9", "9.4"), ("rhel9.2", "9.6"), ("ubuntu24.04", "24.04")])
def test_minor_releases_of_an_rpm_system_are_one_host(planned: str, found: str) -> None:
    made = plan(host(planned))
    demand_same_host(made, replace(made.host, os=replace(made.host.os, version_id=found)))


@pytest.mark.parametrize(
    ("planned", "found"), [("rocky9", "8.10"), ("rocky9", "90"), ("ubuntu24.04", "22.04"), ("sles15.6", "15.7")]
)
def test_another_release_is_refused(planned: str, found: str) -> None:
    made = plan(host(planned))
    with pytest.raises(UsageError, match=r"os\.version_id of the host was"):
        demand_same_host(made, replace(made.host, os=replace(made.host.os, version_id=found)))
