"""Versions and ranges: order, spelling, PEP 440 clauses."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from gpustack.matrix.index import load_matrix
from gpustack.model.facts import COMPONENTS
from gpustack.versions import is_within, version, version_range

numbers = st.lists(st.integers(0, 999), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
operators = st.sampled_from([">=", "<=", ">", "<", "==", "!="])


@pytest.mark.parametrize("text", ["580.95.05", "25.08", "8.0.5.39", "0.5.0"])
def test_a_version_keeps_the_vendors_spelling(text: str) -> None:
    assert str(version(text)) == text


@pytest.mark.parametrize(
    ("candidate", "wanted", "inside"),
    [
        ("13.0.2", ">=12.4,<13", False),
        ("13.0", "==13.0.0", True),
        ("13.0.0", "==13.0", True),
        ("12.9.1", "<=12.9", False),
        ("8.9.6.50", "==8.9.*", True),
        ("8.90.1", "==8.9.*", False),
        ("11.8.0", "==11.8.* | ==12.*", True),
        ("12.6.3", "==11.8.* | ==12.*", True),
        ("13.0.0", "==11.8.* | ==12.*", False),
        ("1.4.9", "~=1.4.2", True),
        ("1.5.0", "~=1.4.2", False),
        ("5.14.0-70.13.1", ">=5.14.0-570,<5.14.1", False),
        ("5.14.0-687.12.1", ">=5.14.0-570,<5.14.1", True),
        ("6.12.0-55.9.1", ">=6.12.0-125", False),
        ("9.10.0", "!=9.10.*", False),
        ("450.51.06", "==450.*,>=450.51", True),
        ("450.36.06", "==450.*,>=450.51", False),
        ("1", "", True),
    ],
)
def test_ranges(candidate: str, wanted: str, inside: bool) -> None:
    assert is_within(candidate, wanted) is inside


@pytest.mark.parametrize(
    ("wanted", "pair"),
    [
        ("==11.8.*,==12.4.*", "==11.8.* ==12.4.*"),
        (">=12,>=12.4,<12", ">=12 <12"),
        ("<=12.4,>12.4", "<=12.4 >12.4"),
        ("~=12.4.0,>=12.5", "~=12.4.0 >=12.5"),
        ("==12.4.*,!=12.*", "==12.4.* !=12.*"),
        ("==12.4.1,!=12.4.1", "==12.4.1 !=12.4.1"),
        ("==12.*,==12.4.*", ""),
        ("==12.*,!=12.0.*", ""),
        (">=12.4,<=12.4", ""),
        ("~=12.4,>=12.5", ""),
        ("==11.8.*,==12.4.* | ==12.*", ""),
    ],
)
def test_two_clauses_that_no_version_meets(wanted: str, pair: str) -> None:
    assert " ".join(map(str, version_range(wanted).contradiction or ())) == pair


@given(operators, numbers, operators, numbers, numbers)
def test_no_version_meets_a_contradiction(one: str, low: str, other: str, high: str, candidate: str) -> None:
    wanted = f"{one}{low},{other}{high}"
    assert not (version_range(wanted).contradiction and is_within(candidate, wanted))


@given(numbers, operators, numbers)
def test_every_clause_agrees_with_packaging(candidate: str, operator: str, bound: str) -> None:
    assert is_within(candidate, f"{operator}{bound}") == (candidate in SpecifierSet(f"{operator}{bound}"))


@given(numbers, numbers)
def test_wildcards_agree_with_packaging(candidate: str, bound: str) -> None:
    assert is_within(candidate, f"=={bound}.*") == (candidate in SpecifierSet(f"=={bound}.*"))


@given(st.lists(numbers, min_size=2, max_size=6))
def test_the_order_is_total(texts: list[str]) -> None:
    ordered = sorted((version(text) for text in texts), key=lambda v: v.key)
    assert all(not later < earlier for earlier, later in itertools.pairwise(ordered))


@pytest.mark.parametrize("text", ["12.x", "===12", ">=", "12.4", ">=12.*", "~=12", "=>12", "$(reboot)", ">=1;rm"])
def test_a_malformed_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"clause|numbers"):
        version_range(text)


@pytest.mark.gate  # asks both programs
@pytest.mark.parametrize("component", COMPONENTS)
def test_known_versions_are_ordered_as_dpkg_and_rpm_order_them(component: str) -> None:
    texts = [row.version for row in reversed(load_matrix().releases(component))]
    distinct = [next(same) for _, same in itertools.groupby(texts, key=lambda text: version(text).key)]
    numeric = [
        (a, b) for a, b in itertools.pairwise(distinct) if a.replace(".", "").isdigit() and b.replace(".", "").isdigit()
    ]
    assert numeric
    dpkg, rpm = shutil.which("dpkg"), shutil.which("rpm")
    assert dpkg, "dpkg has to be there: apt-get install dpkg"
    assert rpm, "rpm has to be there: apt-get install rpm"
    for older, newer in numeric[:: max(1, len(numeric) // 40)]:
        assert subprocess.run([dpkg, "--compare-versions", older, "lt", newer], check=False).returncode == 0
    compared = "".join(f"print(rpm.vercmp('{a}','{b}'));" for a, b in numeric)
    out = subprocess.run([rpm, "--eval", f"%{{lua:{compared}}}"], check=True, capture_output=True, text=True).stdout
    assert out.replace("\n", "") == "-1" * len(numeric)
