"""What installs packages: the same answers from an action and from the words of a plan that has none."""

from __future__ import annotations

import pytest

from gpustack.model import actions as do
from gpustack.plan.commands import spell
from gpustack.plan.installing import installs, with_packages
from gpustack.plan.managers import NAMES, manager

PACKAGES = (do.Package(name="libcudnn9", pin="9.14.0.64-1"), do.Package(name="zlib"))


def more_exact(packages: list[do.Package]) -> list[do.Package]:
    return [*packages[:1], do.Package(name="zlib", pin="1.3-1"), do.Package(name="/var/cache/more.file")]


@pytest.mark.parametrize("name", NAMES)
def test_words_are_made_exact_as_their_action_is(name: do.ManagerName) -> None:
    action = do.InstallPackages(manager=name, packages=PACKAGES)
    [argv] = spell(action)
    former = do.Words(argv=argv)
    assert installs(action) == installs(former) == (name, argv)
    assert spell(with_packages(action, more_exact)) == spell(with_packages(former, more_exact))


@pytest.mark.parametrize("name", NAMES)
def test_a_word_is_read_as_it_is_written(name: do.ManagerName) -> None:
    tool = manager(name)
    names = [
        "dnf-command(versionlock)",
        "https://example.com/epel-release-9-1.noarch.rpm",
        "/var/cache/a-1.0-1.rpm",
        "g++",
    ]
    for package in (*PACKAGES, *(do.Package(name=one) for one in names)):
        assert tool.word(tool.read(tool.word(package))) == tool.word(package)
    assert [tool.read(tool.word(one)) for one in PACKAGES] == list(PACKAGES)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_is_asked_in_the_place_of_the_network(name: do.ManagerName) -> None:
    action = do.InstallPackages(manager=name, packages=PACKAGES)
    [argv] = spell(action)
    [offline] = spell(do.InstallPackages(manager=name, packages=PACKAGES, bundle=True))
    assert offline == manager(name).offline(argv) != argv
    assert any("/var/lib/gpustack/bundle/" in word for word in offline)
    assert manager(name).offline(("rpm", "--import", "/k")) == ("rpm", "--import", "/k")


@pytest.mark.parametrize("name", NAMES)
def test_what_would_be_installed_can_be_downloaded_instead(name: do.ManagerName) -> None:
    [argv] = spell(do.InstallPackages(manager=name, packages=PACKAGES))
    fetched = manager(name).download(argv, "/to")
    assert any("/to" in word for word in fetched)
    assert {"--download-only", "--downloadonly"}.intersection(fetched)
    assert [word for word in argv if word not in fetched] == []


def test_what_holding_needs_is_an_installation_too() -> None:
    hold = do.HoldPackages(manager="dnf", names=("a",), tools=("dnf-command(versionlock)",))
    found = installs(hold)
    assert found is not None
    assert found[1] == spell(hold)[0]
    assert installs(do.HoldPackages(manager="apt", names=("a",))) is None
    assert installs(do.Words(argv=("install", "-d", "/opt/a"))) is None


def test_settings_of_dnf_are_no_business_of_a_bundle() -> None:
    words = ("dnf", "config-manager", "--set-enabled", "crb")
    assert manager("dnf").offline(words) == words
