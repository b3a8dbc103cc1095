"""Nothing is skipped in silence: every rule of the facts, and every property and condition that it asks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from gpustack.matrix.index import load_matrix
from gpustack.model.facts import COMPONENTS, PROPERTIES, Rule
from gpustack.model.host import Gpu, Host, OperatingSystem
from gpustack.model.request import Request
from gpustack.model.resolution import Verdict
from gpustack.solve.check import check
from gpustack.solve.hostview import OPTIONS, SYSTEM_FIXED
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.rulebook import BoundRule, rule_book
from gpustack.versions import is_within

MATRIX = load_matrix()
NOWHERE = OperatingSystem(id="linux", version_id="1", family="apt", name="a system that no fact knows")
WINDOWS = OperatingSystem(id="windows", version_id="0", family="windows", name="a Windows that no fact knows")


def bound_rules() -> Iterator[BoundRule]:
    for component in COMPONENTS:
        yield from rule_book(MATRIX).of(component)


def releases(bound: BoundRule) -> list[str]:
    """The known versions that a rule binds, the newest first."""
    return [
        row.version for row in MATRIX.releases(bound.component) if is_within(row.version, bound.subject.text or ">=0")
    ]


def bare(rule: Rule) -> Host:
    """A host of which is known what the conditions of a rule ask for, and nothing else."""
    when = rule.when
    gpu = Gpu(
        name=when.gpu[0] if when.gpu else "a GPU",
        kind=when.gpu_class[0] if when.gpu_class else "datacenter",
        fabric="nvswitch" if when.fabric else None,
        compute_capability=_inside(when.compute_capability) if when.compute_capability else None,
        part="MIG" if when.mig else UNSET,
    )
    asks_gpu = bool(when.gpu or when.gpu_class or when.compute_capability or when.fabric is not None or when.mig)
    return Host(
        os=WINDOWS if when.os == "windows" else replace(NOWHERE, id=when.system[0]) if when.system else NOWHERE,
        arch=when.arch[0] if when.arch else "x86_64",
        glibc=_inside(when.glibc) if when.glibc else None,
        environment=when.environment[0] if when.environment else "bare-metal",  # type: ignore[arg-type]  # one of them
        gpus=(gpu,) if asks_gpu else (),
        described=True,
    )


def _inside(range_text: str) -> str:
    known = ("5.3", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0", "2.35")
    return next(text for text in known if is_within(text, range_text))


def ask(host: Host, component: str, version: str, methods: tuple[str, ...] = ()) -> Verdict:
    requirements = merge((parse_requirement(f"{component}=={version}"),))
    return check(MATRIX, host, Request(requirements=requirements, methods=parse_methods(methods[:1])))


def of_property(name: str) -> list[BoundRule]:
    return [bound for bound in bound_rules() if bound.rule.needs == name]


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_rule_about_a_property_that_is_not_known_is_reported(name: str) -> None:
    silent = []
    for bound in of_property(name):
        rule = bound.rule
        for version in releases(bound)[:1]:
            verdict = ask(bare(rule), bound.component, version, rule.when.method)
            told = [(one.rule, one.needs, one.option) for one in verdict.unknown]
            aside = [(one.rule, one.property, one.option) for one in verdict.not_judged]
            entry = (rule.id, name, OPTIONS[name])
            host = bare(rule)
            has_gpu = name == "compute-capability" and bool(host.gpus)
            decides = (name in SYSTEM_FIXED or has_gpu) and (bound.is_of_compiling or not bound.is_advice)
            if entry not in (told if decides else aside):
                silent.append(f"{rule.id} ({bound.component} {version})")
            if decides and verdict.verdict == "compatible":
                silent.append(f"{rule.id}: compatible")
    assert not silent


def test_every_property_has_an_option_and_every_option_a_property() -> None:
    assert set(PROPERTIES) <= set(OPTIONS)
    conditions = {"os", "arch", "environment", "gpu"}
    assert set(OPTIONS) == set(PROPERTIES) | conditions


CONDITIONS = {
    "arch": lambda when: bool(when.arch),
    "environment": lambda when: bool(when.environment),
    "gpu": lambda when: bool(when.gpu_class or when.gpu or when.compute_capability),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_rule_whose_condition_is_not_known_is_reported(name: str) -> None:
    """A rule that another version would breach, on a host of which the condition is not known."""
    silent = []
    for bound in bound_rules():
        rule = bound.rule
        if not CONDITIONS[name](rule.when) or rule.when.method or rule.equal or rule.needs not in COMPONENTS:
            continue
        subject = releases(bound)[:1]
        refused = [row.version for row in MATRIX.releases(rule.needs) if not bound.accepts("0", row.version)]
        if not subject or not refused:
            continue
        host = replace(bare(rule), **({"gpus": ()} if name == "gpu" else {name: None}))
        request = Request(
            requirements=(
                parse_requirement(f"{bound.component}=={subject[0]}"),
                parse_requirement(f"{rule.needs}=={refused[-1]}"),
            )
        )
        verdict = check(MATRIX, host, request)
        told = {one.rule for one in verdict.unknown} | {one.rule for one in verdict.not_judged}
        if rule.id not in told and verdict.verdict == "compatible":
            silent.append(rule.id)
    assert not silent


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_says_where_it_applies(component: str) -> None:
    """Nowhere is a platform or architecture of which no fact speaks taken for one that will do."""
    newest = next(row.version for row in MATRIX.releases(component) if row.status in {"released", ""})
    somewhere = Host(os=NOWHERE, arch="s390x", environment="bare-metal", described=True)
    verdict = ask(somewhere, component, newest)
    assert verdict.verdict != "compatible"
    unplaced = ask(Host(os=NOWHERE, environment="bare-metal", described=True), component, newest)
    assert any(one.needs == "arch" and one.option == "--arch" for one in unplaced.unknown)


@pytest.mark.parametrize(
    ("asked", "arch", "system", "needs"),
    [
        ("tensorrt==8.0.1.6", "aarch64", NOWHERE, "arch"),
        ("triton==24.08", "x86_64", WINDOWS, "environment"),
    ],
)
def test_outside_of_where_a_component_applies_the_verdict_is_unknown(
    asked: str, arch: str, system: OperatingSystem, needs: str
) -> None:
    host = Host(os=system, arch=arch, environment="bare-metal", glibc="2.39", described=True)
    verdict = check(MATRIX, host, Request(requirements=(parse_requirement(asked),)))
    assert verdict.verdict == "unknown"
    assert needs in {one.needs for one in verdict.unknown}
    assert all(one.rule and one.option and one.sources for one in verdict.unknown if one.needs)


@pytest.mark.parametrize(
    ("asked", "arch", "system", "reason"),
    [
        (
            "tensorrt==10.1.0.27",
            "ppc64le",
            NOWHERE,
            "TensorRT 10.1.0.27 is known for x86_64 and aarch64, not for ppc64le",
        ),
        ("cuda==12.4.1", "aarch64", WINDOWS, "CUDA 12.4.1 for Windows is known for x86_64, not for aarch64"),
    ],
)
def test_a_release_for_other_architectures_is_unknown_and_named_so(
    asked: str, arch: str, system: OperatingSystem, reason: str
) -> None:
    host = Host(os=system, arch=arch, environment="bare-metal", glibc="2.39", described=True)
    verdict = check(MATRIX, host, Request(requirements=(parse_requirement(asked),)))
    assert verdict.verdict == "unknown"
    assert any(reason in one.reason for one in verdict.unknown)
