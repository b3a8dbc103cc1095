"""The sentences of the solver, whole: what every kind of constraint says, and in which order a conflict names them."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Request
from gpustack.solve import sentences
from gpustack.solve.causes import Asked, Constraint, Denied, Flavour, HostLimit, NoFlavour, NoOffer, Offered, Pair
from gpustack.solve.question import Question
from gpustack.solve.requirements import merge, parse_requirement

V100 = "Tesla V100-SXM2-16GB"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.fixture(scope="module")
def mixed(matrix: Matrix) -> Host:
    return describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("L4", "V100-SXM2-16GB"), driver="550.54.15")


def about(matrix: Matrix, host: Host, *asked: str, **request: object) -> Question:
    requirements = merge(tuple(parse_requirement(one) for one in asked))
    return Question(matrix, host, msgspec.structs.replace(Request(requirements=requirements), **request), mode="check")


SAID: list[tuple[Constraint, list[str]]] = [
    (Asked("cuda"), ["You asked for CUDA 13.0.2"]),
    (Asked("cudnn"), ["You asked for cuDNN of any version"]),
    (Asked("driver"), ["This host has driver 550.54.15 (given)"]),
    (Offered("cuda"), ["Method network offers no compatible CUDA for Ubuntu 24.04 LTS"]),
    (Flavour(), [f"{V100} is not supported by open kernel modules"]),
    (Pair("cuda", "driver"), ["CUDA 13 to before 13.6 requires driver 580 or newer"]),
    (
        HostLimit("driver", "compute-capability"),
        [
            "Drivers of R520 to R565 drive compute capability 5.0 to 9.0; Kepler ended with R470, Blackwell begins with R570",
            f"This host has L4 (compute capability 8.9) and {V100} (compute capability 7.0)",
            f"The last driver branch for {V100} is 580",
        ],
    ),
]


@pytest.mark.parametrize(("constraint", "said"), SAID, ids=[str(one) for one, _ in SAID])
def test_what_a_constraint_says(matrix: Matrix, mixed: Host, constraint: Constraint, said: list[str]) -> None:
    question = about(matrix, mixed, "cuda==13.0.2", "cudnn")
    assert [one.text for one in sentences.constraint_sentences(question, constraint)] == said


def test_every_rule_has_its_addresses(matrix: Matrix, mixed: Host) -> None:
    (rule,) = sentences.constraint_sentences(about(matrix, mixed, "cuda==13.0.2"), Pair("cuda", "driver"))
    assert rule.sources
    assert all(address.startswith("https://docs.nvidia.com/") for address in rule.sources)


def test_what_is_installed_is_not_given(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, msgspec.structs.replace(mixed, described=False), "cuda==13.0.2")
    assert sentences.asked_sentence(question, "driver").text == "This host has driver 550.54.15 (installed)"


def test_modules_that_were_asked_for_are_said(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "driver", kernel_module="open")
    assert [one.text for one in sentences.constraint_sentences(question, Flavour())] == [
        f"{V100} is not supported by open kernel modules",
        "You asked for open kernel modules",
    ]


def test_what_a_host_has_of_a_property(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "cuda")
    assert sentences.host_has(question, "gcc") == "The default of Ubuntu 24.04 LTS is GCC 13.3.0"
    assert sentences.host_name(question, "compute-capability") == f"gpu: L4, {V100}"
    assert sentences.host_name(question, "kernel") == "os: kernel 6.8.0"
    own = about(matrix, msgspec.structs.replace(mixed, kernel="6.14.0-1018-oem"), "cuda")
    assert sentences.host_has(own, "kernel") == "This host has kernel 6.14.0"
    assert sentences.last_branch(question, "cuda", "compute-capability") == ""
    assert sentences.last_branch(question, "driver", "kernel") == ""
    assert (
        sentences.last_branch(question, "driver", "compute-capability") == f"The last driver branch for {V100} is 580"
    )


EVERY: frozenset[Constraint] = frozenset(
    [
        Pair("cudnn", "cuda"),
        Pair("cuda", "driver"),
        Flavour(),
        Asked("cudnn"),
        Asked("cuda"),
        HostLimit("cuda", "compute-capability"),
        HostLimit("driver", "kernel"),
        HostLimit("driver", "compute-capability"),
        Denied("cuda"),
        Offered("cudnn"),
        Offered("cuda"),
    ]
)


def test_the_order_in_which_a_conflict_is_told() -> None:
    """What was asked, what the host is, what is missing, what follows; by component and then by name."""
    assert sorted(EVERY, key=sentences._reading_order) == [
        Asked("cuda"),
        Asked("cudnn"),
        HostLimit("driver", "compute-capability"),
        HostLimit("driver", "kernel"),
        HostLimit("cuda", "compute-capability"),
        Flavour(),
        Offered("cuda"),
        Denied("cuda"),
        Offered("cudnn"),
        Pair("cuda", "driver"),
        Pair("cudnn", "cuda"),
    ]
    assert sorted(EVERY, key=sentences.by_kind) == [
        Asked("cuda"),
        Asked("cudnn"),
        Flavour(),
        HostLimit("cuda", "compute-capability"),
        HostLimit("driver", "compute-capability"),
        HostLimit("driver", "kernel"),
        Offered("cuda"),
        Denied("cuda"),
        Offered("cudnn"),
        Pair("cuda", "driver"),
        Pair("cudnn", "cuda"),
    ]


def test_the_members_of_a_conflict(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "cuda==13.0.2", "cudnn>=9", "driver>=580")
    members: frozenset[Constraint] = EVERY - {HostLimit("driver", "kernel"), Pair("cudnn", "cuda"), Denied("cuda")}
    assert sentences.between(question, members) == (
        "cuda==13.0.2",
        "cudnn>=9",
        f"gpu: L4, {V100}",
        "os: Ubuntu 24.04 LTS",
        "driver>=580",
    )


def test_why_a_version_is_refused(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "cuda")
    assert sentences.refusal_in_words(question, NoFlavour()).text == (
        "none of its kernel module flavours supports every GPU here"
    )
    assert sentences.refusal_in_words(question, NoOffer("cudnn", "13.0")).text == (
        "not available by method network for CUDA 13.0 for Ubuntu 24.04 LTS"
    )
    assert sentences.refusal_in_words(question, NoOffer("cudnn", "")).text == (
        "not available by method network for Ubuntu 24.04 LTS"
    )


def test_encode_sessions_whose_limit_is_the_drivers(matrix: Matrix) -> None:
    from gpustack.solve.sessions import _by_driver

    host = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("RTX 4090",), driver=None)
    (unknown,) = _by_driver(about(matrix, host, "ffmpeg"), "sessions=8", 8).unknown
    assert unknown.reason == (
        "sessions=8: the limit depends on the driver; known are 2 with any, 5 from driver 530.41.03 on,"
        " 8 from driver 550.54.14 on"
    )
    assert (unknown.needs, unknown.option) == ("driver", "--driver")
