"""The sentences of the solver, whole: what every kind of constraint says, and in which order a conflict names them."""

from __future__ import annotations

import msgspec
import pytest

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.own_file import OwnFile
from gpustack.model.request import Request
from gpustack.solve import reasons, sentences
from gpustack.solve.causes import (
    Asked,
    Constraint,
    Denied,
    Flavour,
    HostLimit,
    Missing,
    NoFlavour,
    NoOffer,
    Offered,
    Pair,
    Unwanted,
)
from gpustack.solve.question import Candidate, Question
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.search import Search

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
        "sessions=8: the limit depends on the driver; known are 2 with any, 3 from driver 460.67 on,"
        " 5 from driver 530.41.03 on, 8 from driver 550.54.14 on"
    )
    assert (unknown.needs, unknown.option) == ("driver", "--driver")


def test_a_gpu_that_open_modules_alone_support(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("L4", "B200"), driver=None)
    said = sentences.constraint_sentences(about(matrix, host, "driver"), Flavour())
    assert [one.text for one in said] == ["B200 is supported by open kernel modules only"]


def test_what_the_bulletins_say_of_the_preferred_version(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "cuda")
    (said,) = sentences.constraint_sentences(question, Denied("driver"))
    assert said.text.startswith("Driver 550.54.15 has known vulnerabilities: security bulletin ")
    assert said.text.endswith(" (--deny-vulnerable)")
    assert said.sources
    assert sentences.constraint_sentences(about(matrix, mixed, "nccl"), Denied("nccl")) == []


def test_a_component_that_must_not_come_along(matrix: Matrix, mixed: Host) -> None:
    refused = Unwanted(Pair("tensorrt", "cudnn"))
    assert sentences.refusal_in_words(about(matrix, mixed, "cuda"), refused).text == "it would add cuDNN"


def test_of_many_rules_the_preferred_releases_is_told(matrix: Matrix, mixed: Host) -> None:
    def said(subject: str, other: str) -> list[str]:
        question = about(matrix, mixed, subject)
        return [one.text for one in sentences.constraint_sentences(question, Pair(subject, other))]

    assert said("cudnn", "cuda")[1:] == ["Older releases of cuDNN have limits of their own for CUDA"]
    assert said("ffmpeg", "nv-codec-headers")[0].startswith("FFmpeg 9.0.x requires nv-codec-headers 11.1.5.3 to before")
    assert said("fabric-manager", "driver") == [
        "Fabric Manager refuses to start unless its version equals the driver version to the last digit"
    ]


def test_only_rules_that_refuse_everything_are_told(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "cuda>=12.4,<13.1")
    said = [one.text for one in sentences.constraint_sentences(question, Pair("cuda", "driver"))]
    assert said == ["CUDA 13 to before 13.6 requires driver 580 or newer"]


def test_why_a_method_has_no_more(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "tensorrt")
    why, sources = sentences.method_limit(question, "tensorrt", "pip")
    assert why.startswith(": 8.6.0 was the last whole wheel on the package index")
    assert sources
    assert sentences.method_limit(question, "tensorrt", "network") == ("", ())
    assert sentences.method_limit(question, "cuda", "pip") == ("", ())


def test_a_system_without_a_name_is_spelled(matrix: Matrix, mixed: Host) -> None:
    host = msgspec.structs.replace(mixed, os=msgspec.structs.replace(mixed.os, name=None))
    question = about(matrix, host, "cuda")
    assert sentences.constraint_sentences(question, Offered("cuda"))[0].text == (
        "Method network offers no compatible CUDA for ubuntu24.04"
    )
    assert sentences.refusal_in_words(question, NoOffer("cuda", "")).text == (
        "not available by method network for ubuntu24.04"
    )
    assert sentences.between(question, frozenset([Offered("cuda")])) == ("os: ubuntu24.04",)


def test_two_gpus_of_one_capability_are_listed(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("L4", "L40S"), driver=None)
    question = about(matrix, host, "cuda")
    assert sentences.host_has(question, "compute-capability") == "This host has L4, L40S (compute capability 8.9)"


def test_what_is_missing_is_told_with_its_version(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "tensorrt==10.4.0", methods={"tensorrt": "pip"})
    every = frozenset([Offered("tensorrt"), Asked("tensorrt")])
    asked, missing = sentences.sentences_of(question, every, (Missing("tensorrt", "10.4.0"),))
    assert asked.text == "You asked for TensorRT 10.4.0"
    assert missing.text.startswith("Method pip offers no ")
    assert ": 8.6.0 was the last whole wheel on the package index" in missing.text
    assert missing.sources


def test_a_refusal_of_vulnerable_releases_is_a_member(matrix: Matrix, mixed: Host) -> None:
    question = about(matrix, mixed, "cuda==13.0.2")
    members: frozenset[Constraint] = frozenset([Denied("driver"), Asked("cuda"), Pair("cuda", "driver")])
    assert sentences.between(question, members) == ("cuda==13.0.2", "--deny-vulnerable")


def test_values_of_the_host_are_listed(matrix: Matrix) -> None:
    host = describe(matrix, os="ubuntu24.04", arch="x86_64", gpus=("L4", "V100-SXM2-16GB"), driver=None)
    question = about(matrix, host, "cuda")
    assert sentences._values(question, "compute-capability") == ("8.9", "7.0")
    assert sentences._values(question, "cuda")[0] == question.candidates("cuda")[0].version


def test_what_runs_on_a_jetson_is_told_once_for_all_rules(matrix: Matrix) -> None:
    host = describe(matrix, os="jetpack6.2", arch=None, gpus=("Jetson AGX Orin",))
    question = about(matrix, host, "container-toolkit")
    (cuda,) = sentences.constraint_sentences(question, HostLimit("cuda", "l4t"))
    (nccl,) = sentences.constraint_sentences(question, HostLimit("nccl", "l4t"))
    assert cuda.text == "Of CUDA, Jetson Linux 36.4.3 runs 12.9.2, 12.9.1, 12.9.0 and 12.8.2"
    assert nccl.text == "Of NCCL, Jetson Linux 36.4.3 runs none that is known"
    assert len(cuda.sources) == len(set(cuda.sources)) == sentences.MOST_RULES
    # What is asked for is held against each rule.
    asked = sentences.constraint_sentences(about(matrix, host, "cuda"), HostLimit("cuda", "l4t"))
    assert len(asked) > 1
    assert asked[-1].text == "This host has Jetson Linux 36.4.3"


def own(name: str, cuda: str) -> OwnFile:
    return OwnFile(
        path=f"/home/u/{name}", component="cudnn", form="tar", file=name, version="9.10.2", arch="x86_64",
        sha256=name[0] * 64, size=9, cuda=cuda,
    )  # fmt: skip


def test_own_files_are_named_as_where_a_component_is_from(matrix: Matrix, mixed: Host) -> None:
    pick = Candidate(component="cudnn", version="9.10.2", release=None)
    question = about(matrix, mixed, "cudnn", files=(own("a.tar.xz", "12"), own("b.tar.xz", "12")))
    why = reasons._choice(question, Search(question), {}, pick)
    assert why is not None
    assert (why.role, why.text) == (
        "asked",
        "from a.tar.xz (sha256 aaaaaaaaaaaa) and b.tar.xz (sha256 bbbbbbbbbbbb)",
    )
    assert sentences.refusal_in_words(question, NoOffer("cudnn", "13.0")).text == (
        "a.tar.xz (sha256 aaaaaaaaaaaa) is built for CUDA 12"
    )
    unnamed = about(matrix, mixed, "cudnn", files=(own("a.tar.xz", ""),))
    assert sentences.refusal_in_words(unnamed, NoOffer("cudnn", "13.0")).text == (
        "a.tar.xz (sha256 aaaaaaaaaaaa) is built for CUDA of a release that it does not name"
    )


def test_what_comes_along_without_a_rule_is_needed_by_another_component(matrix: Matrix, mixed: Host) -> None:
    pick = Candidate(component="cudnn", version="9.10.2", release=None)
    why = reasons._origin(about(matrix, mixed, "cuda"), {"cudnn": pick}, "cudnn")
    assert (why.role, why.text) == ("needed-by", "needed by another component")
