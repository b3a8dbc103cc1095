"""Refusals over the grid of systems, architectures, components, methods and releases: what they name is true and works.

The whole grid takes hours, so every ``STEP``-th question of it is asked: about 300, of every component; a quarter of
them in ``--quick``, half of them in every run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import pytest

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.request import Method, Request
from gpustack.solve.offered import offered_versions
from gpustack.solve.offers import POSSIBLE
from gpustack.solve.question import Question
from gpustack.solve.requirements import merge, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import is_within, version

STEP = 303
SHARES = 4
LINES = 12
"""So many lines of each component, from its newest to its oldest."""

BOARDS = {"x86_64": "L4", "aarch64": "GH200 480GB", "ppc64le": "V100-SXM2-16GB"}
FOLDERS = {"x86_64": "x86_64", "sbsa": "aarch64", "ppc64le": "ppc64le", "ppc64el": "ppc64le"}

RANGE = re.compile(r"\b(?:offers|known are) [^;.]*\d to \d")
NEAREST = re.compile(r"Method (\S+) offers no (compatible )?.*; the nearest are (\S+) and (\S+?)[.;:] ")
NEWEST = re.compile(r"Method (\S+) offers no (compatible )?.*; its (newest|oldest) is (\S+?)[.,;:] ")
OTHER_VERSION = re.compile(r"try (([a-z-]+)==\S+), which .*")
OTHER_METHOD = re.compile(r"--method ([a-z-]+)=([a-z]+) offers .* here(, if any version will do)?")
METHODS_TOGETHER = re.compile(r"((?:--method \S+ )+)(?:together offer|offers) .* here")
SAYS_SO = re.compile(
    r"the nearest known (is|are) .*|leave it out of the requirements|use the publisher's image .*"
    r"|use a system that NVIDIA builds for, .*|.* is known for .*, not for .*"
    r"|JetPack \S+ has CUDA .* of its own: .*|.*: name its JetPack, --os jetpack6.2, or .*"
    r"|install them from https://\S+; `gpustack verify .*` checks what is installed"
    r"|no method offers it for this system and request; .*|no other version, method or part of the request .*"
)
"""Hints that offer nothing to try."""


def hosts(matrix: Matrix) -> Iterator[Host]:
    """Every system on each of its architectures, but for what cannot be described."""
    for row in matrix.systems:
        for arch in dict.fromkeys(FOLDERS[word] for word in row.arch or ("x86_64",) if word in FOLDERS):
            with suppress(GpustackError):
                yield describe(matrix, os=f"{row.id}{row.version}", arch=arch, gpus=(BOARDS[arch],), driver=None)


def lines_of(matrix: Matrix, component: str) -> list[str]:
    lines = list(dict.fromkeys(".".join(row.version.split(".")[:2]) for row in matrix.releases(component)))
    return lines[:: max(1, len(lines) // LINES)]


def questions(matrix: Matrix) -> Iterator[tuple[Host, str, Method, str]]:
    """Host, component, method and the line of a release."""
    lines = {component: lines_of(matrix, component) for component in POSSIBLE}
    every = (
        (host, component, method, line)
        for host in hosts(matrix)
        for component, methods in POSSIBLE.items()
        for method in methods
        for line in lines[component]
    )
    return (question for count, question in enumerate(every) if count % STEP == 0)


def request(methods: dict[str, Method], *texts: str) -> Request:
    return Request(requirements=merge(tuple(map(parse_requirement, texts))), methods=methods)


def refusal(matrix: Matrix, host: Host, asked: Request) -> GpustackError | None:
    try:
        resolve(matrix, host, asked)
    except GpustackError as error:
        return error
    return None


@pytest.mark.parametrize(
    "share",
    [0, *(pytest.param(one, marks=pytest.mark.gate if one == 1 else pytest.mark.slow) for one in range(1, SHARES))],
)
def test_what_a_refusal_names_is_true_and_works(share: int) -> None:
    matrix = load_matrix()
    met: Counter[str] = Counter()
    for host, component, method, line in islice(questions(matrix), share, None, SHARES):
        text, methods = f"{component}=={line}.*", {component: method}
        about = (host.os.spelled, host.arch, text, method)
        asked = request(methods, text)
        error = refusal(matrix, host, asked)
        if error is None:
            continue
        met["refused"] += 1
        assert RANGE.search(error.message) is None, (about, error.message)
        assert error.hint, about
        for sentence in error.message.splitlines():
            met[demand_true(matrix, host, asked, f"{sentence} ")] += 1
        for hint in error.hint.splitlines():
            met[demand_working(matrix, host, asked, hint)] += 1
        is_known = any(is_within(row.version, f"=={line}.*") for row in matrix.releases(component))
        assert not (is_known and error.code == "unknown-version"), (about, error.message)
    assert min(met[kind] for kind in ("nearest", "end", "version", "method", "known")) > 0, met
    assert met["refused"] > 300 // SHARES, met


def demand_true(matrix: Matrix, host: Host, asked: Request, sentence: str) -> str:
    """The versions that a sentence names are offered, nothing lies between them, and none is what was asked for."""
    question = Question(matrix, host, asked, mode="plan")
    (requirement,) = asked.requirements
    if match := NEAREST.search(sentence):
        method, is_compatible, below, above = match.groups()
        lists = [offered_versions(question, name) for name in POSSIBLE if question.offers.method(name) == method]
        neighbours = [one for one in lists if below in one and above in one]
        assert any(one.index(above) == one.index(below) + 1 for one in neighbours), (host.os.spelled, sentence)
        wanted = [text for text in (below, above) if is_within(text, requirement.versions)]
        assert is_compatible or not wanted, (host.os.spelled, sentence)
        return "nearest"
    if match := NEWEST.search(sentence):
        method, is_compatible, end, one = match.groups()
        ends = [
            offered_versions(question, name)[-1 if end == "newest" else 0]
            for name in POSSIBLE
            if question.offers.method(name) == method and offered_versions(question, name)
        ]
        assert one in ends, (host.os.spelled, sentence)
        assert is_compatible or not is_within(one, requirement.versions), (host.os.spelled, sentence)
        return "end"
    return "known" if ", not for " in sentence else ""


def demand_working(matrix: Matrix, host: Host, asked: Request, hint: str) -> str:
    """The request, changed as a hint says, has an answer."""
    (requirement,) = asked.requirements
    if match := OTHER_VERSION.fullmatch(hint):
        kept = () if match[2] == requirement.component else (str(requirement),)
        resolve(matrix, host, request(dict(asked.methods), *kept, match[1]))
        return "version"
    if match := OTHER_METHOD.fullmatch(hint):
        text = requirement.component if match[3] else str(requirement)
        methods: dict[str, Method] = {**asked.methods, match[1]: match[2]}  # type: ignore[dict-item]  # of a hint
        resolve(matrix, host, request(methods, text))
        return "method"
    if match := METHODS_TOGETHER.fullmatch(hint):
        several = dict(one.split("=") for one in re.findall(r"--method (\S+)", match[1]))
        resolve(matrix, host, request(several, str(requirement)))  # type: ignore[arg-type]  # of a hint
        return "methods"
    assert SAYS_SO.fullmatch(hint), (host.os.spelled, asked, hint)
    return ""


def test_a_folder_that_is_behind_names_the_day_it_was_read() -> None:
    matrix = load_matrix()
    host = describe(matrix, os="debian11", arch="x86_64", gpus=("T4",), driver=None)
    error = refusal(matrix, host, request({"": "network"}, "cuda==13.4.*"))
    assert error is not None
    found = re.search(r"its newest is (\S+), as far as read on (\d{4}-\d\d-\d\d)\.", error.message)
    assert found is not None, error.message
    assert version(found[1]) < version("13.4")
    assert found[2] in {source.read for source in matrix.sources("repositories").values()}


def test_a_build_that_is_missing_is_said_by_the_builds_there_are() -> None:
    matrix = load_matrix()
    host = describe(matrix, os="windows11", arch="x86_64", gpus=("RTX 2080",), driver=None)
    error = refusal(matrix, host, request({"cudnn": "zip"}, "cudnn==8.0.5.*", "cuda==11.1.*"))
    assert error is not None
    assert "Zip files of cuDNN 8.0.5.39 for Windows 11 are known for CUDA 10.1, 10.2 and 11.0 only." in error.message


def test_a_release_for_another_architecture_is_not_called_unknown() -> None:
    matrix = load_matrix()
    host = describe(matrix, os="ubuntu20.04", arch="aarch64", gpus=("A100-PCIE-40GB",), driver=None)
    error = refusal(matrix, host, request({}, "cuda==10.2.*"))
    assert error is not None
    assert (error.code, error.message) == (
        "release-elsewhere",
        "CUDA 10.2.89 is known for x86_64 and ppc64le, not for aarch64",
    )


def test_a_file_behind_a_login_is_named() -> None:
    matrix = load_matrix()
    host = describe(matrix, os="ubuntu22.04", arch="x86_64", gpus=("T4",), driver=None)
    error = refusal(matrix, host, request({"cudnn": "local"}, "cudnn==8.9.6.*", "cuda==12.2.*"))
    assert error is not None
    assert (
        "cudnn-local-repo-ubuntu2204-8.9.6.50_1.0-1_amd64.deb is known, but NVIDIA offers it behind a login only"
        in error.message
    )
