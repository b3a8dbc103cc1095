"""Saved hosts and plans with anything changed: an answer or an explained refusal."""

# ruff: noqa: PT017 (an answer is as right as a refusal; pytest.raises knows refusals only)

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.detect import hostfile
from gpustack.detect.describe import describe
from gpustack.errors import DocumentError, GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan import document
from gpustack.plan.build import build
from gpustack.render.api import FORMATS, render
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve

BOUNDED = settings(derandomize=True, database=None, max_examples=examples(200), deadline=None)

LONGEST = 10.0

Mutation = Callable[[Any], st.SearchStrategy[Any]]
Damage = Callable[[bytes], st.SearchStrategy[bytes]]


def request(*texts: str) -> Request:
    return Request(requirements=tuple(parse_requirement(text) for text in texts))


@cache
def good_hosts() -> list[Any]:
    """Hosts of several kinds as documents: described ones, and one on which much is installed."""
    facts = load_matrix()
    hosts = [
        describe(facts, os="ubuntu24.04", arch=None, gpus=("H200", "L4"), driver="580.95.05"),
        describe(facts, os="rhel9.4", arch="aarch64", gpus=("GH200 480GB",)),
        describe(facts, os="wsl-ubuntu24.04", arch=None, gpus=("RTX 4090",)),
        describe(facts, os="sles15.6", arch=None, gpus=("GTX 1080",)),
    ]
    documents = [json.loads(msgspec.json.encode(host)) for host in hosts]
    full = documents[0]
    full["kernel"] = full["next_kernel"] = "6.8.0-45-generic"
    full["module"] = {"version": "580.95.05", "flavour": "open", "loaded": True, "signer": None}
    full["installed"] |= {
        "cuda": {"version": "12.8.1", "method": "runfile", "path": "/usr/local/cuda-12.8"},
        "cudnn": {"version": "9.8.0", "method": "network", "packages": ["libcudnn9-cuda-12"]},
    }
    full["copies"] = [{"component": "cudnn", "path": "/usr/lib/libcudnn.so.9", "version": "9.8.0", "wins": True}]
    full["repositories"] = [
        {"path": "/etc/apt/sources.list.d/cuda.list", "url": "https://developer.download.nvidia.com/x"}
    ]
    full["problems"] = [{"id": "x", "message": "y", "severity": "warn"}]
    return documents


@cache
def good_plan() -> bytes:
    facts = load_matrix()
    host = describe(facts, os="ubuntu24.04", arch=None, gpus=("H200",))
    asked = request("cuda", "cudnn")
    return document.dump(build(host, asked, resolve(facts, host, asked), facts)).encode()


QUESTIONS = st.sampled_from(
    (("driver", "cuda", "cudnn"), ("cuda>=12,<13", "tensorrt"), ("ffmpeg",), ("driver", "container-toolkit"))
)


@settings(BOUNDED, max_examples=examples(400))
@given(data=st.data(), question=QUESTIONS)
def test_a_host_with_anything_changed(
    matrix: Matrix, mutated: Mutation, data: st.DataObject, question: tuple[str, ...]
) -> None:
    changed = data.draw(mutated(data.draw(st.sampled_from(good_hosts()))))
    try:
        host = hostfile.parse(json.dumps(changed).encode(), where="host.json")
    except DocumentError as error:
        assert error.where == "host.json"
        return
    answers(matrix, host, request(*question))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all texts and gaps of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, str) or value is None:
        yield path
    for key, inner in items:
        yield from leaves(inner, (*path, key))


@pytest.mark.parametrize("nonsense", ["", "nonsense", "-1.x", "9" * 30, "\x00\x1b\n$(x)"])
def test_a_host_with_nonsense_in_each_of_its_texts(matrix: Matrix, nonsense: str) -> None:
    good = good_hosts()[0]
    for path in leaves(good):
        changed = copy.deepcopy(good)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = nonsense
        try:
            host = hostfile.parse(json.dumps(changed).encode(), where="host.json")
        except DocumentError:
            continue
        try:
            answers(matrix, host, request("driver", "cuda", "cudnn"))
        except Exception as error:
            msg = f"{nonsense!r} at {path}: {error!r}"
            raise AssertionError(msg) from error


def answers(matrix: Matrix, host: Host, asked: Request) -> None:
    """Every stage gives an answer or says why it cannot, within seconds of this processor's time."""
    started = time.process_time()
    stages(matrix, host, asked)
    assert time.process_time() - started < LONGEST


def stages(matrix: Matrix, host: Host, asked: Request) -> None:
    check(matrix, host, request("cuda==12.4.1", "driver==580.95.05"))
    try:
        plan = build(host, asked, resolve(matrix, host, asked), matrix)
    except GpustackError as error:
        assert error.exit_code in {3, 4}
        return
    assert document.parse(document.dump(plan).encode(), where="plan.json") == plan
    in_all_formats(plan)


def in_all_formats(plan: Plan) -> None:
    for name in FORMATS:
        with suppress(GpustackError):  # a format that another system runs
            assert render(plan, name)


@BOUNDED
@given(data=st.data())
def test_a_host_file_with_any_damage(damaged: Damage, data: st.DataObject) -> None:
    good = json.dumps(data.draw(st.sampled_from(good_hosts()))).encode()
    try:
        hostfile.parse(data.draw(damaged(good)), where="host.json")
    except DocumentError as error:
        assert error.where == "host.json"


@BOUNDED
@given(data=st.data())
def test_a_plan_with_anything_changed_is_refused(mutated: Mutation, data: st.DataObject) -> None:
    good = json.loads(good_plan())
    changed = data.draw(mutated(good))
    try:
        plan = document.parse(json.dumps(changed).encode(), where="plan.json")
    except DocumentError as error:
        assert error.where == "plan.json"
        return
    # Only what does not change the plan gets through: a default left out, a key that nothing reads.
    assert document.dump(plan).encode() == good_plan()


@BOUNDED
@given(data=st.data())
def test_a_plan_that_was_sealed_again_is_rendered_or_refused(mutated: Mutation, data: st.DataObject) -> None:
    """The digest is no signature: whoever can write the file can write it too."""
    changed = data.draw(mutated(json.loads(good_plan())))
    try:
        plan = msgspec.convert(changed, Plan)
    except msgspec.ValidationError:
        return
    sealed = msgspec.structs.replace(plan, digest=document.digest_of(plan))
    try:
        plan = document.parse(document.dump(sealed).encode(), where="plan.json")
    except DocumentError:
        return
    in_all_formats(plan)


@BOUNDED
@given(data=st.data())
def test_a_plan_file_with_any_damage(damaged: Damage, data: st.DataObject) -> None:
    try:
        document.parse(data.draw(damaged(good_plan())), where="plan.json")
    except DocumentError as error:
        assert error.where == "plan.json"


@BOUNDED
@given(content=st.binary(max_size=200))
def test_any_bytes_are_neither_host_nor_plan(content: bytes) -> None:
    for parse in (hostfile.parse, document.parse):
        try:
            parse(content, where="x")
        except DocumentError:
            continue
        raise AssertionError(content)
