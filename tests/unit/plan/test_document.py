"""Plan documents as files: what is written is read back, and everything else is refused in a sentence."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest
from tests.unit.plan.making import CUDA, CUDNN, DRIVER, host, plan

from gpustack.errors import DocumentError, UsageError
from gpustack.model.actions import AnyAction, Link, MakeFolders, Words
from gpustack.model.steps import Artifact, FileWrite
from gpustack.plan.document import MAX_BYTES, digest_of, dump, load, parse
from gpustack.plan.draft import Draft, assemble, draft
from gpustack.plan.touched import touched
from gpustack.render.api import demand_format, render


@pytest.fixture(scope="module")
def text() -> str:
    return dump(plan(host(), DRIVER, CUDA))


def test_a_plan_survives_the_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    assert dump(load(path)) == text


def test_a_plan_comes_through_the_pipe_of_a_shell_and_no_other(text: str, tmp_path: Path) -> None:
    end, start = os.pipe()
    with open(start, "w", encoding="utf-8") as stream:  # noqa: PTH123 (a descriptor)
        stream.write(text[:1000])
    with pytest.raises(DocumentError, match="JSON"):
        load(Path(f"/dev/fd/{end}"))
    os.close(end)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DocumentError, match="is not a file"):
        load(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda document: document.update(schema="gpustack/plan/v2"), "schema"),
        (lambda document: document.update(schema=3), "schema"),
        (lambda document: document.pop("host"), "is not a plan"),
        (lambda document: document["steps"][0].update(kind="surprise"), "is not a plan"),
        (lambda document: document["steps"][0].update(title="other"), "changed"),
        (lambda document: document["steps"][3]["commands"].append(["reboot"]), "changed"),
        (lambda document: document.update(digest=""), "changed"),
    ],
)
def test_a_changed_document_is_refused(text: str, change: object, says: str) -> None:
    document = json.loads(text)
    change(document)  # type: ignore[operator]
    with pytest.raises(DocumentError, match=says) as caught:
        parse(json.dumps(document).encode(), where="plan.json")
    assert caught.value.exit_code == 2
    assert caught.value.where == "plan.json"
    assert caught.value.hint


def sealed(steps: list[Draft]) -> bytes:
    """A plan of these steps whose digest is right: whoever can write a file can write that too."""
    made = msgspec.structs.replace(plan(host(), DRIVER), steps=assemble(steps))
    return dump(msgspec.structs.replace(made, digest=digest_of(made))).encode()


def step(
    *, actions: tuple[AnyAction, ...] = (), file: FileWrite | None = None, artifact: Artifact | None = None
) -> Draft:
    return draft(
        "one",
        component="",
        kind="write-file",
        title="t",
        why="w",
        phase="libraries",
        actions=actions,
        files=(file,) if file else (),
        artifacts=(artifact,) if artifact else (),
    )


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "is an empty path"),
        ("/", "is '/', and names no file or folder of its own"),
        ("/etc/", "names no file or folder of its own"),
        ("/etc/..", "names no file or folder of its own"),
        ("etc/x", "is 'etc/x', and not a path from the root on"),
        ("/etc/a\0b", "holds a NUL character"),
        ("/etc/" + "n" * 256, "a name in it is longer than 255 bytes"),
        ("/etc/" + "\u00e9" * 128, "a name in it is longer than 255 bytes"),
        ("/etc" + "/deep" * 900, "longer than 4000 bytes"),
    ],
)
def test_a_place_that_no_file_can_have_is_refused_with_its_field(path: str, says: str) -> None:
    fields = {
        "steps[0].files[0].path": step(file=FileWrite(path=path, content="")),
        "steps[0].artifacts[0].path": step(artifact=Artifact(url="https://a.example/x", path=path)),
        "steps[0].actions[0]": step(actions=(MakeFolders(paths=(path,)),)),
        "steps[0].": step(actions=(Link(path=path, target="/opt/x"),)),
    }
    for field, one in fields.items():
        with pytest.raises(DocumentError, match=re.escape(says)) as caught:
            parse(sealed([one]), where="plan.json")
        assert caught.value.message.startswith(field if "NUL" not in says else "steps[0].")
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("mode", ["9999", "rwx", "-1", "04755", "", "0o644", "64", "0644 ", "\u0666\u0664\u0664"])
def test_a_mode_that_is_none_is_refused(mode: str) -> None:
    with pytest.raises(DocumentError, match=r"^steps\[0\]\.files\[0\]\.mode is .*, and not a mode like 0644"):
        parse(sealed([step(file=FileWrite(path="/etc/x", content="", mode=mode))]), where="plan.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", ""),
        ("url", "file://server/etc/passwd"),
        ("url", "file:etc/passwd"),
        ("url", "https://[::1"),
        ("url", "https://a.example:99999999/x"),
        ("sha256", "../../../etc/passwd"),
        ("sha256", "A" * 64),
        ("fingerprint", "--yes"),
        ("size", -1),
    ],
)
def test_a_download_that_cannot_be_made_is_refused(field: str, value: object) -> None:
    good = {"url": "https://a.example/x", "path": "/opt/x", "sha256": "a" * 64, "fingerprint": "B" * 40, "size": 0}
    parse(sealed([step(artifact=Artifact(**good))]), where="plan.json")  # type: ignore[arg-type]
    with pytest.raises(DocumentError, match=rf"^steps\[0\]\.artifacts\[0\]\.{field} is "):
        parse(sealed([step(artifact=Artifact(**{**good, field: value}))]), where="plan.json")  # type: ignore[arg-type]


def test_a_file_of_ones_own_is_known_by_its_checksum() -> None:
    good = Artifact(url="file:///srv/cudnn.deb", path="/opt/x", sha256="a" * 64)
    parse(sealed([step(artifact=good)]), where="plan.json")
    with pytest.raises(DocumentError, match=r"^steps\[0\]\.artifacts\[0\]\.sha256 is empty"):
        parse(sealed([step(artifact=msgspec.structs.replace(good, sha256=""))]), where="plan.json")


def test_words_that_only_look_like_a_place_are_no_place() -> None:
    """As in the script of a shell; a NUL is refused there too."""
    script = "/usr/bin/true && " + "x" * 300
    made = parse(sealed([step(actions=(Words(argv=("sh", "-c", script, "/opt/x")),))]), where="plan.json")
    assert touched(made.steps[0]).places == ("/opt/x",)
    with pytest.raises(DocumentError, match=r"^steps\[0\]\.commands\[0\]\[1\] holds a NUL"):
        parse(sealed([step(actions=(Words(argv=("true", "a\0b")),))]), where="plan.json")


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * 1000])
def test_nonsense_is_refused(raw: bytes) -> None:
    with pytest.raises(DocumentError):
        parse(raw, where="plan.json")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not exist"):
        load(tmp_path / "none.json")
    with pytest.raises(DocumentError, match="is not a file"):
        load(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(DocumentError, match="larger than 64 MiB"):
        load(path)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="'tablet'") as caught:
        demand_format("tablet")
    assert "'table'" in caught.value.hint


def test_the_table_fits_100_columns_but_for_long_words(text: str) -> None:
    for line in render(parse(text.encode(), where=""), "table").splitlines():
        assert len(line) <= 100 or " https://" in line or max(map(len, line.split())) > 60, line


def test_a_guide_gives_no_capital_to_the_name_of_a_program() -> None:
    guide = render(plan(host(), DRIVER, CUDA, CUDNN), "markdown")
    assert "\nmokutil --import /var/lib" in guide
    assert "\ncuda-keyring contains" in guide
    assert "\nWithout it a GPU that no program uses" in guide
