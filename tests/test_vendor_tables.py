"""Where the vendor publishes a decision table, the answers agree with every row of it, or the exception stands here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from gpustack.detect.describe import describe
from gpustack.errors import NoSolutionError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.facts import COMPONENTS
from gpustack.model.host import Gpu, Host
from gpustack.model.places import GpuProduct
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import is_within, version


@cache
def facts() -> Matrix:
    return load_matrix()


def request(*texts: str) -> Request:
    return Request(requirements=tuple(parse_requirement(text) for text in texts))


# (a) The table of supported GPUs: last driver branch and module flavour of each product.

Kind = tuple[str, str, str, str, str, str]


def kinds_of_products() -> dict[Kind, list[GpuProduct]]:
    """The products with a compute capability; those that any rule must treat alike stand together."""
    found: dict[Kind, list[GpuProduct]] = {}
    for row in facts().products:
        if row.compute_capability:
            kind = (row.compute_capability, row.open_module, row.driver_first, row.driver_last, row.kind, row.fabric)
            found.setdefault(kind, []).append(row)
    return found


KINDS = kinds_of_products()
NAMED_BY_RULES = {name for part in COMPONENTS for rule in facts().rules(part) for name in rule.when.gpu}


def host_with(product: GpuProduct, system: str) -> Host:
    plain = describe(facts(), os=system, arch=None)
    gpu = Gpu(
        name=product.name,
        pci_id=f"10de:{product.device}",
        architecture=product.architecture,
        compute_capability=product.compute_capability,
        kind=product.kind or None,
        open_module=product.open_module or None,
        fabric=product.fabric or None,
        driver_first=product.driver_first or None,
        driver_last=product.driver_last or None,
    )
    return Host(
        os=plain.os, arch=plain.arch, environment=plain.environment, glibc=plain.glibc, gcc=plain.gcc, gpus=(gpu,),
        described=True,
    )  # fmt: skip


def representatives(products: list[GpuProduct]) -> Iterator[GpuProduct]:
    """One product for those that no rule tells apart, and each that a rule names."""
    yield products[0]
    yield from {row.name: row for row in products[1:] if row.name in NAMED_BY_RULES}.values()


def test_the_table_of_products_is_all_there() -> None:
    assert sum(len(rows) for rows in KINDS.values()) >= 980
    without = [row for row in facts().products if not row.compute_capability]
    assert len(without) <= 15, "a product without a compute capability cannot be judged"


@pytest.mark.parametrize("system", ["ubuntu24.04", "rhel9.6"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(part or "x" for part in kind))
def test_the_driver_fits_the_product(kind: Kind, system: str) -> None:
    for product in representatives(KINDS[kind]):
        host = host_with(product, system)
        try:
            pick = resolve(facts(), host, request("driver")).pick("driver")
        except NoSolutionError as error:
            refused_rightly(product, host, f"{error.message}\n{error.hint}")
            continue
        assert pick is not None
        fits(product, pick.version, pick.flavour)


def refused_rightly(product: GpuProduct, host: Host, told: str) -> None:
    assert is_older_than_every_offer(product, host), (product.name, told)
    assert re.search(rf"\b{product.driver_last}\b", told), (product.name, told)


def fits(product: GpuProduct, driver: str, flavour: str) -> None:
    branch = driver.partition(".")[0]
    if product.driver_last:
        assert int(branch) <= int(product.driver_last), (product.name, driver)
    if product.driver_first:
        assert version(driver) >= version(product.driver_first), (product.name, driver)
    if product.open_module == "required":
        assert flavour == "open", (product.name, driver)
    if product.open_module == "impossible":
        assert flavour == "proprietary", (product.name, driver)


def is_older_than_every_offer(product: GpuProduct, host: Host) -> bool:
    """Whether the vendor's folder for the host carries no driver of the product's last branch or an older one."""
    carried = [
        row.versions
        for row in facts().availability("driver")
        if row.repo == host.os.repo and (not row.arch or "x86_64" in row.arch)
    ]
    last = int(product.driver_last or 10_000)
    old = [row.version for row in facts().releases("driver") if int(row.version.partition(".")[0]) <= last]
    return not any(is_within(text, wanted) for text in old for wanted in carried)


# (b, c) Which repository folder serves which distribution.

NAMES = {
    "AlmaLinux": "almalinux",
    "Amazon Linux": "amzn",
    "Azure Linux": "azurelinux",
    "Debian": "debian",
    "Fedora": "fedora",
    "KylinOS": "kylin",
    "Oracle Linux": "ol",
    "RHEL": "rhel",
    "Red Hat Enterprise Linux": "rhel",
    "Rocky Linux": "rocky",
    "SLES": "sles",
    "Ubuntu": "ubuntu",
    "openSUSE Leap": "opensuse-leap",
}
"""The guides' names and the ID of os-release."""

OTHER_NAMES = {"Azure Linux 2.0": "mariner2.0"}
"""Azure Linux 2 calls itself mariner in os-release."""


def system_named(distribution: str) -> str:
    """ID + VERSION_ID of a system as a guide names it ("SLES 15 SP6+" is sles15.6)."""
    if distribution in OTHER_NAMES:
        return OTHER_NAMES[distribution]
    name = next(name for name in NAMES if distribution.startswith(name))
    rest = distribution.removeprefix(name)
    number = re.search(r"V?\d+(?:\.\d+)?", rest)
    pack = re.search(r"SP(\d+)", rest) if "SLES" in name or "Leap" in name else None
    assert number, distribution
    return f"{NAMES[name]}{number.group()}" + (f".{pack[1]}" if pack else "")


def folders_of(repo: str | None) -> set[str]:
    return {row.arch for row in facts().repositories if row.repo == repo}


DRIVER_GUIDE = facts().rows("driver", "distro_codenames", dict)


@pytest.mark.parametrize("row", DRIVER_GUIDE, ids=lambda row: f"{row['guide']} {row['distro']} {row['arch']}")
def test_the_driver_guide_names_the_folder_that_we_take(row: dict[str, Any]) -> None:
    host = describe(facts(), os=system_named(row["distro"]), arch=row["arch"])
    assert host.os.repo == row["codename"]
    assert {"x86_64": "x86_64", "aarch64": "sbsa"}[host.arch or ""] in folders_of(host.os.repo)


CUDA_GUIDE = facts().rows("cuda", "distros", dict)
FOLDERS = {"x86_64": "x86_64", "sbsa": "sbsa", "grace": "sbsa"}


def is_without_a_folder(row: dict[str, Any]) -> bool:
    """Rows for which the guide of that edition names no folder: Jetson, and SUSE 16 until the guide of 13.3."""
    return row["arch"] == "jetson" or (row["cuda"] == "13.2" and re.search(r"16(\.0)?$", row["distro"]) is not None)


@pytest.mark.parametrize(
    "row",
    [row for row in CUDA_GUIDE if row.get("repo")],
    ids=lambda row: f"{row['edition']} {row['arch']} {row['distro']} {row['version']}",
)
def test_the_cuda_guide_names_the_folder_that_we_take(row: dict[str, Any]) -> None:
    host = describe(facts(), os=system_named(row["distro"]), arch="x86_64" if row["arch"] == "x86_64" else "aarch64")
    assert host.os.repo == row["repo"]
    assert FOLDERS[row["arch"]] in folders_of(row["repo"])


def test_the_cuda_guide_names_a_folder_or_there_is_a_reason() -> None:
    for row in CUDA_GUIDE:
        assert bool(row.get("repo")) != is_without_a_folder(row), row


# (d) Minor version compatibility: the lowest driver on which every release of a CUDA major runs.

FLOORS = {row["major"]: row for row in facts().rows("cuda", "minor_version_compat", dict) if "linux_min" in row}
OWN_FLOORS = {
    # The first releases of a major came with drivers below the floor that was set later; with these they run.
    ("11.0", "linux"),
    ("11.0", "windows"),
    ("12.0", "windows"),
}
SYSTEMS = {"linux": "ubuntu22.04", "windows": "windows11"}


def releases_with_a_floor() -> Iterator[tuple[str, str, str]]:
    for row in facts().releases("cuda"):
        numbers = version(row.version).numbers
        floor = FLOORS.get(str(numbers[0]))
        for system in SYSTEMS:
            if floor and (not row.os or system in row.os) and row.status in {"released", ""}:
                yield row.version, system, floor[f"{system}_min"]


def below(text: str) -> str:
    """The version just below: one less in the last number."""
    *front, last = text.split(".")
    return ".".join([*front, str(int(last) - 1).zfill(len(last))])


@pytest.mark.parametrize(("cuda", "system", "floor"), list(releases_with_a_floor()))
def test_a_cuda_release_runs_from_the_floor_of_its_major_on(cuda: str, system: str, floor: str) -> None:
    host = describe(facts(), os=SYSTEMS[system], arch=None)
    at = check(facts(), host, request(f"cuda=={cuda}", f"driver=={floor}"))
    assert at.conflicts == ()
    under = check(facts(), host, request(f"cuda=={cuda}", f"driver=={below(floor)}"))
    if (".".join(cuda.split(".")[:2]), system) in OWN_FLOORS:
        return
    assert len(under.conflicts) == 1
    assert {part.partition("==")[0] for part in under.conflicts[0].between} == {"cuda", "driver"}
    assert under.conflicts[0].sources


def test_cuda_before_11_has_no_minor_version_compatibility() -> None:
    host = describe(facts(), os="ubuntu18.04", arch=None)
    known = [row for row in facts().releases("cuda") if row.status == "released"]
    newest = next(row.version for row in known if is_within(row.version, "==10.2.*"))
    assert check(facts(), host, request(f"cuda=={newest}", "driver==418.39")).conflicts
