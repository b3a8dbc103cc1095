"""Matrix files of any shape: facts, or a MatrixError that names the file; never a hang, never anything executed."""

# ruff: noqa: PT017 (an answer is as right as a refusal; pytest.raises knows refusals only)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.errors import GpustackError, MatrixError
from gpustack.matrix import load
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Gpu, Host, OperatingSystem
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement

BOUNDED = settings(derandomize=True, database=None, max_examples=examples(250), deadline=None)
FEW = settings(BOUNDED, max_examples=examples(100))

GOOD = """\
schema: gpustack/matrix/v1
subject: cuda
about: mine
sources:
  mine: {address: "https://example.com/", known: tested, read: 2026-11-21}
tables:
  releases:
    rows:
      - {version: 99.1, date: 2030-01-31, os: [linux], src: [mine]}
      - {version: 12.4.1, date: 2030-01-31, status: released, src: [mine]}
  rules:
    rows:
      - {id: mine-1, of: "cuda>=99", needs: driver, any: [">=700"], strength: required, src: [mine]}
      - {id: mine-2, of: "cuda==99.1", needs: compute-capability, none: ["<9", "==10.*"], when: {os: linux}, src: [mine]}
"""

HOST = Host(
    os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt", repo="ubuntu2404"),
    arch="x86_64",
    environment="bare-metal",
    gpus=(Gpu(name="L4", compute_capability="8.9", kind="datacenter"),),
)
QUESTION = Request(requirements=tuple(parse_requirement(text) for text in ("cuda==12.4.1", "driver==580.95.05")))

Damage = Callable[[bytes], st.SearchStrategy[bytes]]


def laid_over(folder: Path, content: bytes) -> None:
    """The overlay is refused with its file, or the solver can work with it."""
    path = folder / "cuda.yaml"
    path.write_bytes(content)
    try:
        matrix = load_matrix(folder)
        check(matrix, HOST, QUESTION)
    except MatrixError as error:
        assert "cuda.yaml" in error.where
        assert len(error.message) < 1000


@BOUNDED
@given(data=st.data())
def test_a_damaged_overlay_is_used_or_refused(folder: Path, damaged: Damage, data: st.DataObject) -> None:
    laid_over(folder, data.draw(damaged(GOOD.encode())))


@BOUNDED
@given(data=st.data())
def test_an_overlay_with_a_line_changed_is_used_or_refused(folder: Path, data: st.DataObject) -> None:
    lines = GOOD.splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        value = data.draw(st.sampled_from(VALUES) | st.text(max_size=10))
        head, colon, rest = lines[number].rpartition(": " if data.draw(st.booleans()) else ", ")
        changed = f"{head}{colon}{value}" + ("}" if rest.endswith("}") else "")
        lines[number] = data.draw(st.sampled_from(("", changed, changed, changed, f"  {lines[number]}")))
    laid_over(folder, "\n".join(lines).encode("utf-8", "surrogatepass"))


VALUES = (
    "[]", "{}", "[a, [b]]", "{a: {b: c}}", "null", "~", "-1", "1e999", ".nan", "99999999999999999999999", "''", '"\\0"',
    "<<", "|", ">", "!!int 5", "&a x", "*a", "? x", "[>=1]", "['>=1,<0']", "cuda", "driver", "required", "mine", "[mine]",
)  # fmt: skip


@BOUNDED
@given(content=st.binary(max_size=120) | st.text(max_size=120).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_a_subject_or_refused(folder: Path, content: bytes) -> None:
    path = folder / "any.yaml"
    path.write_bytes(content)
    try:
        load.read_subject(path)
    except MatrixError as error:
        assert "any.yaml" in error.where
    finally:
        path.unlink()


YAML_SIGNS = st.sampled_from(
    (
        "a",
        "b: ",
        "- ",
        "? ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "\n",
        "  ",
        "&x ",
        "*x",
        "!!y ",
        "'",
        '"',
        "#",
        "|",
        ">",
        "---\n",
        ": ",
        "%",
    )
)


@BOUNDED
@given(text=st.lists(YAML_SIGNS, max_size=40).map("".join))
def test_any_yaml_is_read_or_refused(folder: Path, text: str) -> None:
    test_any_bytes_are_a_subject_or_refused.hypothesis.inner_test(folder, text.encode())  # type: ignore[attr-defined]


@FEW
@given(component=st.sampled_from(("cuda", "driver", "cudnn", "ffmpeg")), data=st.data())
def test_a_row_of_a_real_table_damaged_is_used_or_refused(
    folder: Path, damaged: Damage, component: str, data: st.DataObject
) -> None:
    overlay = f"schema: gpustack/matrix/v1\nsubject: {component}\ntables:\n  rules:\n    rows:\n"
    rows = real_rows(component)
    row = data.draw(damaged(data.draw(st.sampled_from(rows)).encode()))
    path = folder / "row.yaml"
    path.write_bytes(overlay.encode() + b"      " + row + b"\n")
    try:
        check(load_matrix(folder), HOST, QUESTION)
    except GpustackError as error:
        assert isinstance(error, MatrixError)
    finally:
        path.unlink()


def real_rows(component: str) -> list[str]:
    from gpustack import resources

    text = (resources.folder("matrices") / f"{component}.yaml").read_text(encoding="utf-8")
    rules = text.partition("\n  rules:\n")[2].partition("rows:\n")[2]
    return [line.strip() for line in rules.splitlines()[:40] if line.startswith("      - {")]
