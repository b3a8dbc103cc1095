"""Requirements, methods, versions and request files of any shape: an answer or an explained refusal, at once."""

# ruff: noqa: PT017 (an answer is as right as a refusal; pytest.raises knows refusals only)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.cli.requestfile import parse_toml, read_request_file
from gpustack.cli.stack_options import StackOptions
from gpustack.errors import DocumentError, UsageError
from gpustack.model.facts import COMPONENTS
from gpustack.model.request import METHODS
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.versions import version, version_range

BOUNDED = settings(derandomize=True, database=None, max_examples=examples(400), deadline=None)

Damage = Callable[[bytes], st.SearchStrategy[bytes]]

OPERATORS = ("==", ">=", "<=", "<", ">", "!=", "~=", "===", "=", "=>", "", " ", ",", "|", "@", "^", "*", ".*")
digits = st.sampled_from(
    ("0", "00", "1", "9", "12", "13", "535", "999999999999999999999", "\u0661", "a", "rc1", "-", "+")
)
versions = st.lists(digits, min_size=1, max_size=5).map(".".join)
clause = st.tuples(st.sampled_from(OPERATORS), versions, st.sampled_from(("", ".*", "*", " ", "\n"))).map("".join)
specifiers = st.lists(clause, max_size=4).map(",".join) | st.text(max_size=40)
names = st.sampled_from((*COMPONENTS, "CUDA", "qda", "", "cuda ", "-", "\udcff")) | st.text(max_size=12)
requirements = st.tuples(names, specifiers).map("".join)


@BOUNDED
@given(requirements)
def test_a_requirement_is_read_or_refused(text: str) -> None:
    try:
        requirement = parse_requirement(text)
    except UsageError as error:
        assert error.message
        assert error.hint
        return
    assert requirement.component in COMPONENTS
    assert parse_requirement(str(requirement)) == requirement
    assert version("12.4") in version_range(requirement.versions) or requirement.versions


@BOUNDED
@given(st.lists(st.sampled_from(("cuda>=12", "cuda<13", "cuda", "cudnn==9.*", "driver~=580.65")), max_size=8))
def test_merged_requirements_name_each_component_once(texts: list[str]) -> None:
    merged = merge(tuple(parse_requirement(text) for text in texts))
    assert len({requirement.component for requirement in merged}) == len(merged)
    for requirement in merged:
        assert parse_requirement(str(requirement)) == requirement


@BOUNDED
@given(st.lists(st.sampled_from(METHODS) | st.text(max_size=20) | requirements, max_size=4))
def test_methods_are_read_or_refused(texts: list[str]) -> None:
    try:
        found = parse_methods(tuple(texts))
    except UsageError as error:
        assert error.hint
        return
    assert set(found.values()) <= set(METHODS)
    assert set(found) <= {"", *COMPONENTS}


@BOUNDED
@given(st.text(max_size=60) | specifiers | versions)
def test_a_range_is_read_or_is_a_value_error(text: str) -> None:
    try:
        wanted = version_range(text)
    except ValueError:
        return
    assert (version("12.4") in wanted) in {True, False}


@BOUNDED
@given(versions, versions, versions)
def test_versions_have_one_order(one: str, two: str, three: str) -> None:
    try:
        a, b, c = version(one), version(two), version(three)
    except ValueError:
        return
    assert (a < b) + (b < a) + (a == b) == 1
    if a <= b <= c:
        assert a <= c


GOOD_TOML = """\
[stack]
cuda = ">=12.4,<13"
cudnn = "9.*"

[options]
os = "ubuntu24.04"
gpu = ["L4"]
method = ["network", "cudnn=tar"]
policy = "newest"
"""

toml_values = st.recursive(
    st.booleans()
    | st.integers().map(str)
    | st.floats().map(str)
    | st.text(max_size=10).map(repr)
    | specifiers.map(lambda text: '"' + text.replace("\\", "").replace('"', "") + '"')
    | st.sampled_from(("1979-05-27T07:32:00Z", "inf", "nan", "'''a\nb'''", '"\\u0000"', '"\\ud800"')),
    lambda inner: st.lists(inner.map(str), max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=5,
).map(str)
toml_lines = st.tuples(
    st.sampled_from(("cuda", "cudnn", "qda", "gpu", "policy", "method", "kernel-module", "root", "host", "a.b", '""')),
    toml_values,
).map(" = ".join)
toml_heads = st.sampled_from(("[stack]", "[options]", "[stack.cuda]", "[[stack]]", "[x]", ""))
toml_texts = st.lists(toml_heads | toml_lines, max_size=8).map("\n".join)


@BOUNDED
@given(text=toml_texts)
def test_any_toml_is_a_request_or_a_document_error(folder: Path, text: str) -> None:
    reads_or_refuses(folder, text.encode("utf-8", "surrogatepass"))


@BOUNDED
@given(data=st.data())
def test_a_damaged_request_file_is_read_or_is_a_document_error(
    folder: Path, data: st.DataObject, damaged: Damage
) -> None:
    reads_or_refuses(folder, data.draw(damaged(GOOD_TOML.encode())))


@BOUNDED
@given(text=st.text(max_size=200))
def test_any_text_is_toml_or_a_value_error(text: str) -> None:
    try:
        parse_toml(text)
    except ValueError:
        return


def reads_or_refuses(folder: Path, content: bytes) -> None:
    path = folder / "gpustack.toml"
    path.write_bytes(content)
    try:
        asked = read_request_file(path, StackOptions())
    except DocumentError as error:
        assert error.where == str(path)
        assert error.hint
        return
    for text in asked.requirements:
        assert parse_requirement(text).component in COMPONENTS
