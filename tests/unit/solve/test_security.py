"""Security bulletins: who is told of which, what is refused, and what fixes it."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.detect.describe import describe
from gpustack.detect.properties import Properties
from gpustack.errors import NoSolutionError
from gpustack.install.lock.drift import Status, with_security
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host, Installed
from gpustack.model.request import Request
from gpustack.model.resolution import Exposure, Verdict
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.solve.security import Fixed, of_host
from gpustack.verify.api import exit_code, verify
from gpustack.versions import version, version_key

H100 = "H100 80GB HBM3"


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


def host(facts: Matrix, system: str = "ubuntu24.04", gpu: str = H100, driver: str | None = None) -> Host:
    return describe(facts, os=system, arch=None, gpus=(gpu,) if gpu else (), properties=Properties(driver=driver))


def request(*texts: str, deny: bool = False) -> Request:
    return Request(requirements=tuple(parse_requirement(text) for text in texts), deny_vulnerable=deny)


def asked(facts: Matrix, on: Host, *texts: str, deny: bool = False) -> Verdict:
    return check(facts, on, request(*texts, deny=deny))


def test_every_fixed_release_is_told_to_those_before_it_and_to_no_other(facts: Matrix) -> None:
    rows = facts.rows("security", "fixed", Fixed)
    told = 0
    for word, gpu in GPUS.items():
        for system, name in SYSTEMS.items():
            lowest: dict[tuple[str, str, str], str] = {}
            for row in rows:
                if row.os == name and (not row.products or any(word in product for product in row.products)):
                    key = (row.component, row.branch, row.bulletin)
                    lowest[key] = min(row.fixed, lowest.get(key, row.fixed), key=version_key)
            on = host(facts, system, gpu)
            bulletins = {}
            for (component, branch, bulletin), fixed in lowest.items():
                for text in releases(facts, component, name, branch):
                    if (asking := f"{component}=={text}") not in bulletins:
                        found = asked(facts, on, asking).security
                        bulletins[asking] = [number for one in found for number in one.bulletins]
                    assert (bulletin in bulletins[asking]) == (version(text) < version(fixed)), (
                        bulletin,
                        component,
                        text,
                    )
                    told += 1
    assert told > 1_000


def releases(facts: Matrix, component: str, system: str, branch: str) -> list[str]:
    return [
        row.version
        for row in facts.releases(component)
        if system in (row.os or (system,)) and row.branch == branch and row.status == "released"
    ]


SYSTEMS = {"ubuntu24.04": "linux", "windows11": "windows"}
GPUS = {"Tesla": H100, "Quadro": "RTX A4000", "GeForce": "GeForce RTX 3060"}


def test_a_bulletin_is_told_with_its_severity_and_the_fixed_release(facts: Matrix) -> None:
    verdict = asked(facts, host(facts), "driver==580.65.06", "container-toolkit==1.17.7")
    assert verdict.verdict == "compatible"
    driver, toolkit = verdict.security
    assert (driver.component, driver.severity, driver.fixed) == ("driver", "high", "580.178.04")
    assert driver.bulletins == ("5861", "5821", "5747", "5703")
    assert (toolkit.component, toolkit.severity, toolkit.fixed) == ("container-toolkit", "critical", "1.19.1")
    assert "5861 (2026-09-30, severity high) and 3 before it; fixed in 580.178.04" in driver.reason


def test_a_branch_that_newer_bulletins_leave_out_is_told_of_too(facts: Matrix) -> None:
    (found,) = asked(facts, host(facts), "driver==570.211.01").security
    assert found.fixed == ""
    assert "bulletin 5861 names no fixed release of branch 570, and 580.178.04 of a later one" in found.reason


@pytest.mark.parametrize("text", ["driver==580.178.04", "driver==620.70.06", "container-toolkit==1.20.0"])
def test_a_fixed_release_has_no_exposure(facts: Matrix, text: str) -> None:
    assert asked(facts, host(facts), text).security == ()


def test_deny_vulnerable_refuses_what_lacks_a_fix_and_nothing_else(facts: Matrix) -> None:
    refused = asked(facts, host(facts), "driver==580.65.06", deny=True)
    assert refused.verdict == "incompatible"
    assert [one.kind for one in refused.conflicts] == ["vulnerable"]
    assert "bulletin 5861" in refused.conflicts[0].reason
    assert asked(facts, host(facts), "driver==580.178.04", deny=True).verdict == "compatible"


def test_a_driver_below_is_refused_where_something_asked_for_needs_it(facts: Matrix) -> None:
    on = host(facts, driver="580.65.06")
    assert asked(facts, on, "cuda==13.0.2").verdict == "compatible"
    assert [one.kind for one in asked(facts, on, "cuda==13.0.2", deny=True).conflicts] == ["vulnerable"]


def test_plan_takes_the_fixed_release_of_a_branch_and_warns_where_another_is_pinned(facts: Matrix) -> None:
    picked = resolve(facts, host(facts), request("driver==580.*"))
    pick = picked.pick("driver")
    assert pick is not None
    assert version(pick.version) >= version("580.178.04")
    assert not any("vulnerabilities" in text for text in picked.warnings)
    pinned = resolve(facts, host(facts), request("driver==580.65.06"))
    assert any("fixed in 580.178.04" in text for text in pinned.warnings)


def test_plan_with_deny_vulnerable_refuses_a_pinned_release_and_names_one_that_is_fixed(facts: Matrix) -> None:
    with pytest.raises(NoSolutionError) as caught:
        resolve(facts, host(facts), request("driver==580.65.06", deny=True))
    assert caught.value.exit_code == 3
    assert "security bulletin 5861" in str(caught.value.where) + caught.value.message
    assert "driver==580.178.04" in (caught.value.hint or "")


def installed(facts: Matrix) -> Host:
    entry = {"driver": Installed(version="580.65.06", method="network")}
    return msgspec.structs.replace(host(facts), installed=entry)


def test_verify_remarks_on_a_vulnerable_driver_and_fails_where_it_is_denied(facts: Matrix) -> None:
    on = installed(facts)
    plain = verify(("driver",), "quick", on, facts)
    (found,) = [one for one in plain.checks if one.id == "driver.security"]
    assert (found.status, "fixed in 580.178.04" in found.detail) == ("pass", True)
    denied = verify(("driver",), "quick", on, facts, given={"deny-vulnerable": "yes"})
    (found,) = [one for one in denied.checks if one.id == "driver.security"]
    assert (found.status, exit_code(denied)) == ("fail", 1)
    assert "driver>=580.178.04" in found.fix


def test_verify_of_a_host_without_a_driver_looks_for_no_bulletin(facts: Matrix) -> None:
    bare = verify((), "quick", msgspec.structs.replace(host(facts), installed={}), facts)
    (found,) = [one for one in bare.checks if one.id == "driver.security"]
    assert (found.status, found.reason) == (
        "skip",
        "neither a driver nor the container toolkit of known version is installed",
    )


def test_status_warns_and_counts_it_as_a_difference_where_it_is_denied(facts: Matrix) -> None:
    exposures: tuple[Exposure, ...] = of_host(facts, installed(facts))
    same = Status(lock="0" * 64, packages=1)
    warned = with_security(same, exposures, is_denied=False)
    assert (len(warned.warnings), warned.drift) == (1, ())
    denied = with_security(same, exposures, is_denied=True)
    assert [(one.kind, one.expected) for one in denied.drift] == [("vulnerability", "580.178.04 or newer")]
    assert denied.reboot
