"""Locks as bills of materials, as documents of a schema, and as plans with nothing left open."""

from __future__ import annotations

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests.golden_plans import cases, outcome

from gpustack.cli import main
from gpustack.install.lock import document as locks
from gpustack.install.lock.sbom import cyclonedx
from gpustack.model.lock import Lock, LockedPackage


def lock_of(system: str) -> Lock:
    """A lock of a golden plan, its installing step having brought a package, a dependency and a wheel."""
    plan = next(outcome(case).plan for case in cases()[system] if case.name == "network")
    assert plan is not None
    step = next(one for one in plan.steps if one.kind == "install-packages" and one.component == "cudnn")
    named = step.packages[0].partition("=")[0]
    kind = "deb" if plan.host.os.family == "apt" else "rpm"
    packages = [
        LockedPackage(
            kind=kind,  # type: ignore[arg-type]  # one of both
            name=named,
            version="1:9.1-1+cuda13",
            arch="amd64",
            url="https://vendor.example/a+b/cudnn_9.1.deb",
            sha256="a" * 64,
            size=10,
            step=step.id,
        ),
        LockedPackage(kind=kind, name="libdepend", version="2.0-1", step=step.id),  # type: ignore[arg-type]
        LockedPackage(kind="wheel", name="nvidia_cublas", version="13.0", sha256="b" * 64),
    ]
    return locks.of_plan(plan, packages=packages)


@pytest.mark.parametrize("system", ["debian12", "rhel9"])
def test_the_bill_of_materials_is_valid_and_always_the_same(system: str) -> None:
    lock = lock_of(system)
    told = cyclonedx(lock)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(told) is None
    assert cyclonedx(lock) == told
    parts = {part["name"]: part for part in json.loads(told)["components"]}
    assert lock.stack.keys() <= parts.keys()
    assert parts["nvidia_cublas"]["purl"] == "pkg:pypi/nvidia-cublas@13.0"
    assert parts["libdepend"]["purl"].startswith(f"pkg:{lock.packages[1].kind}/{lock.plan.host.os.id}/libdepend@2.0-1")
    own = next(part for part in parts.values() if part.get("hashes", [{}])[0].get("content") == "a" * 64)
    assert own["externalReferences"][0]["url"] == "https://vendor.example/a+b/cudnn_9.1.deb"


def test_a_lock_is_valid_by_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "lock"]) == 0
    schema = json.loads(capsys.readouterr().out)
    import jsonschema  # two seconds, in every worker

    jsonschema.validate(json.loads(locks.dump(lock_of("debian12"))), schema)


def test_a_locked_plan_names_files_and_versions() -> None:
    lock = lock_of("debian12")
    plan = locks.locked_plan(lock)
    step = next(one for one in plan.steps if one.id == lock.packages[0].step)
    assert [(one.url, one.sha256, one.size) for one in step.artifacts] == [(lock.packages[0].url, "a" * 64, 10)]
    words = step.commands[-1]
    assert step.artifacts[0].path in words
    assert "libdepend=2.0-1" in words
    assert not any(word.partition("=")[0] == lock.packages[0].name for word in words)


def test_a_locked_plan_of_rpm_names_files_and_versions() -> None:
    lock = lock_of("rhel9")
    step = next(one for one in locks.locked_plan(lock).steps if one.id == lock.packages[0].step)
    assert [(one.sha256, one.size) for one in step.artifacts] == [("a" * 64, 10)]
    assert "libdepend-2.0-1" in step.commands[-1]
    assert not any(word.startswith(f"{lock.packages[0].name}-") for word in step.commands[-1])
    assert f"package {lock.packages[0].name} 9.1-1+cuda13" in step.done_when.splitlines()
    assert "package libdepend 2.0-1" in step.done_when.splitlines()
