"""What the solver picks, why, and the whole message when there is nothing to pick."""

from __future__ import annotations

import pytest
from tests.small_matrix import BLACKWELL, HOPPER, PASCAL, SXM, host, small_matrix

from gpustack.errors import GpustackError, NoSolutionError, UnsupportedError
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.model.resolution import Resolution
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

MATRIX = small_matrix()


def ask(on: Host, *texts: str, **options: object) -> Resolution:
    methods = parse_methods(tuple(options.pop("methods", ())))  # type: ignore[arg-type, call-overload]
    request = Request(
        requirements=merge(tuple(parse_requirement(text) for text in texts)),
        methods=methods,
        **options,  # type: ignore[arg-type]
    )
    return resolve(MATRIX, on, request)


def versions(answer: Resolution) -> dict[str, str]:
    return {pick.component: pick.version for pick in answer.picks}


def message(error: GpustackError) -> str:
    return f"{error.message}\n--\n{error.hint}"


def test_production_prefers_the_newest_production_branch_to_newer_others() -> None:
    assert versions(ask(host(HOPPER), "driver")) == {"driver": "595.1"}


def test_newest_takes_the_newest() -> None:
    assert versions(ask(host(HOPPER), "driver", policy="newest")) == {"driver": "615.1"}


def test_a_needed_driver_comes_along_and_an_installed_one_that_fits_is_kept() -> None:
    assert versions(ask(host(HOPPER), "cuda==12.*")) == {"driver": "595.1", "cuda": "12.8.0"}
    answer = ask(host(HOPPER, driver="535.1"), "cuda==12.*")
    assert [(pick.version, pick.state) for pick in answer.picks] == [("535.1", "keep"), ("12.8.0", "install")]


def test_what_is_installed_and_fits_stays_unless_an_upgrade_is_asked_for() -> None:
    there = host(HOPPER, driver="535.1")
    for policy in ("production", "newest", "minimal"):
        kept = ask(there, "driver", policy=policy).picks[0]
        assert (kept.version, kept.state) == ("535.1", "keep")
        assert "535.1 is installed and compatible; `--upgrade driver` installs a newer release" in [
            one.text for one in kept.reasons
        ]
    for upgrades, version in ((("driver",), "595.1"), (("all",), "595.1"), (("cuda",), "535.1")):
        assert versions(ask(there, "driver", upgrades=upgrades)) == {"driver": version}
    assert versions(ask(there, "driver", upgrades=("all",), policy="minimal")) == {"driver": "535.1"}
    assert versions(ask(there, "driver>535.1")) == {"driver": "595.1"}
    newest = ask(host(HOPPER, driver="615.1"), "driver").picks[0]
    assert [one.text for one in newest.reasons] == ["requested (any version)", "615.1 is installed and compatible"]


def test_an_installed_driver_that_does_not_fit_is_upgraded() -> None:
    answer = ask(host(HOPPER, driver="535.1"), "cuda>=13")
    assert (answer.picks[0].version, answer.picks[0].state) == ("595.1", "upgrade")


def test_a_version_that_breaches_advice_comes_after_one_that_does_not() -> None:
    assert versions(ask(host(HOPPER), "cuda"))["cuda"] == "13.0.0"
    pinned = ask(host(HOPPER), "cuda==13.2.*")
    assert versions(pinned)["cuda"] == "13.2.0"
    assert pinned.warnings == ("CUDA 13.2.x recommends driver 600 or newer; this is 595.1",)


def test_an_exclusion_leaves_the_rest_of_the_window() -> None:
    assert versions(ask(host(HOPPER), "cudnn==9.14.*", "cuda==12.*"))["cuda"] == "12.2.0"


def test_an_old_gpu_holds_driver_and_toolkit_back() -> None:
    answer = ask(host(PASCAL), "driver", "cuda", "cudnn")
    assert versions(answer) == {"driver": "580.1", "cuda": "12.8.0", "cudnn": "9.1.0"}
    assert answer.picks[0].flavour == "proprietary"


def test_flavour_follows_the_gpu() -> None:
    assert ask(host(BLACKWELL), "driver").picks[0].flavour == "open"
    assert ask(host(HOPPER), "driver", kernel_module="proprietary").picks[0].flavour == "proprietary"


def test_fabric_manager_is_exactly_the_drivers_version_and_only_where_there_is_fabric() -> None:
    assert versions(ask(host(SXM), "driver==535.*")) == {"driver": "535.2", "fabric-manager": "535.2"}
    assert "fabric-manager" not in versions(ask(host(HOPPER), "driver"))


def test_no_driver_is_planned_where_there_is_no_gpu() -> None:
    answer = ask(host(), "cuda==12.*")
    assert versions(answer) == {"cuda": "12.8.0"}
    assert answer.warnings == (
        "no GPU is named, so no driver is planned (request one by name: driver)."
        " CUDA 12.x requires driver 525 or newer",
    )


def test_in_a_container_the_driver_is_the_hosts() -> None:
    assert versions(ask(host(HOPPER, environment="container"), "cuda==12.*")) == {"cuda": "12.8.0"}
    with pytest.raises(UnsupportedError) as caught:
        ask(host(HOPPER, environment="wsl"), "driver")
    assert message(caught.value) == (
        "driver cannot be installed here. In WSL the driver is that of Windows: install or update it on the Windows side"
        "\n--\nleave it out of the requirements"
    )


def test_the_reasons_name_what_refused_the_next_newer_version() -> None:
    picks = {pick.component: pick for pick in ask(host(PASCAL), "driver", "cuda").picks}
    assert [reason.text for reason in picks["driver"].reasons] == [
        "requested (any version)",
        "newest compatible release of a long-term support branch (R580)",
        "590.1 refused: Driver 590 or newer requires a GPU of compute capability 7.5 or newer; here it is 6.1",
    ]
    assert [reason.text for reason in picks["cuda"].reasons] == [
        "requested (any version)",
        "newest compatible version (production policy)",
        "13.0.0 refused: CUDA 13 or newer requires a GPU of compute capability 7.5 or newer; here it is 6.1",
    ]
    assert picks["cuda"].reasons[-1].sources == ("https://example.com/cuda",)


@pytest.mark.parametrize(
    ("on", "texts", "options", "component", "reasons"),
    [
        (
            host(HOPPER),
            ("driver",),
            {"policy": "newest"},
            "driver",
            ["asked: requested (any version)", "newest: newest compatible version (newest policy)"],
        ),
        (
            host(HOPPER),
            ("driver<590",),
            {},
            "driver",
            [
                "asked: requested (older than 590)",
                "policy: newest compatible release of a long-term support branch (R580)",
                "refused-newer: 590.1 was not requested",
            ],
        ),
        (
            host(HOPPER),
            ("cuda",),
            {},
            "cuda",
            [
                "asked: requested (any version)",
                "newest: newest compatible version (production policy)",
                "refused-newer: 13.2.0 not chosen: CUDA 13.2.x recommends driver 600 or newer",
            ],
        ),
        (
            host(SXM),
            ("fabric-manager",),
            {},
            "driver",
            [
                "needed-by: needed: Fabric Manager requires driver in exactly the same version",
                "policy: newest compatible release of a production branch (R595)",
                "refused-newer: 615.1 refused: Driver requires Fabric Manager in exactly the same version; here it is 595.1",
            ],
        ),
        (
            host(HOPPER, driver="535.1"),
            ("cuda>=12",),
            {},
            "driver",
            [
                "needed-by: needed: CUDA 12.x requires driver 525 or newer",
                "installed: 535.1 is installed and compatible",
            ],
        ),
    ],
)
def test_why_a_version_was_picked(
    on: Host, texts: tuple[str, ...], options: dict[str, object], component: str, reasons: list[str]
) -> None:
    picks = {pick.component: pick for pick in ask(on, *texts, **options).picks}
    assert [f"{reason.role}: {reason.text}" for reason in picks[component].reasons] == reasons


@pytest.mark.parametrize(
    ("on", "texts", "options", "wanted"),
    [
        (
            host(HOPPER),
            ("cuda>=12.8", "driver==450.*"),
            {},
            "no compatible stack found\n"
            "  You asked for driver 450.x.\n"
            "  Method network offers no driver 450.x for Ubuntu 24.04; its oldest is 535.1.\n"
            "--\n"
            "try driver==595.1, which is compatible with cuda 13.0.0",
        ),
        (
            host(HOPPER),
            ("cuda>=13", "driver==535.*"),
            {},
            "no compatible stack found\n"
            "  You asked for driver 535.x.\n"
            "  You asked for CUDA 13 or newer.\n"
            "  CUDA 13 or newer requires driver 580 or newer.  [https://example.com/cuda]\n"
            "--\n"
            "try cuda==12.8.0, which is compatible with driver 535.2\n"
            "try driver==595.1, which is compatible with cuda 13.0.0",
        ),
        (
            host(PASCAL),
            ("driver==595.*",),
            {},
            "no compatible stack found\n"
            "  You asked for driver 595.x.\n"
            "  Driver 590 or newer requires a GPU of compute capability 7.5 or newer.  [https://example.com/driver]\n"
            "  This host has GTX Old (compute capability 6.1).\n"
            "  The last driver branch for GTX Old is 580.\n"
            "--\n"
            "try driver==580.1, which is available here",
        ),
        (
            host(PASCAL, BLACKWELL),
            ("driver",),
            {},
            "no compatible stack found\n"
            "  GTX Old is not supported by open kernel modules.\n"
            "  RTX New is supported by open kernel modules only.\n"
            "--\n"
            "all GPUs of a host share one driver; on separate hosts: "
            "GTX Old with driver 580.1, RTX New with driver 595.1",
        ),
        (
            host(HOPPER),
            ("cudnn==9.1.*", "cuda>=13"),
            {},
            "no compatible stack found\n"
            "  You asked for CUDA 13 or newer.\n"
            "  You asked for cuDNN 9.1.x.\n"
            "  cuDNN 9 to before 9.10 requires CUDA 12.x.  [https://example.com/cudnn]\n"
            "--\n"
            "try cuda==12.8.0, which is compatible with cudnn 9.1.0\n"
            "try cudnn==9.14.0, which is compatible with cuda 13.0.0",
        ),
        (
            host(HOPPER),
            ("cuda==12.7.*",),
            {},
            "CUDA 12.7.x is not known\n"
            "--\n"
            "the nearest known are 12.2.0 and 12.8.0\n"
            "try cuda==12.8.0, which is available here",
        ),
    ],
)
def test_a_failure_is_told_whole(on: Host, texts: tuple[str, ...], options: dict[str, object], wanted: str) -> None:
    with pytest.raises(NoSolutionError) as caught:
        ask(on, *texts, **options)
    assert message(caught.value) == wanted
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("texts", "both"),
    [
        (("cuda==11.8.*", "cuda==12.4.*"), "both 11.8.x and 12.4.x: cuda==11.8.* and cuda==12.4.* exclude"),
        (("cuda>=12.4", "driver", "cuda<12"), "both 12.4 or newer and older than 12: cuda>=12.4 and cuda<12 exclude"),
    ],
)
def test_requirements_that_exclude_each_other_are_named(texts: tuple[str, ...], both: str) -> None:
    with pytest.raises(NoSolutionError, match="no version of CUDA") as raised:
        ask(host(), *texts)
    assert raised.value.code == "no-compatible-stack"
    assert both in raised.value.message
    request = Request(requirements=merge(tuple(parse_requirement(text) for text in texts)))
    (conflict,) = check(MATRIX, host(), request).conflicts
    assert both in conflict.reason
