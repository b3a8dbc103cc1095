"""No command lets a name, a host, a plan, a lock or a repository act on the terminal, on either stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.conftest import Call, Ended
from tests.property.test_hidden_characters import unseen
from tests.unit.render.cases import plan_for

from gpustack.install.lock import document as locks
from gpustack.model.plan import Plan
from gpustack.plan.document import digest_of, dump

EVIL = "x\x1b[5A\x1b[J\x9b2K\x7f\u202egpj.exe\u2066\u2028\u200by"


def is_seen(done: Ended) -> bool:
    """Whether something came, the hostile text in it, and nothing that acts."""
    spelled = "\\x1b[5A" in done.out + done.err or "\\u001b[5A" in done.out
    return spelled and unseen(done.out + done.err) == set()


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Real, with the text in the words of a command, an address, a title, a reason, a file's content and a warning."""
    document: Any = msgspec.to_builtins(plan_for("cuda", "debian12"))
    for step in document["steps"]:
        step["title"] += EVIL
        step["why"] += EVIL
        for file in step.get("files", ()):
            file["content"] += EVIL
        for artifact in step.get("artifacts", ()):
            artifact["url"] += EVIL
    document["warnings"] = [EVIL]
    document["host"]["kernel"] = f"6.1{EVIL}"
    for entry in document["stack"].values():
        entry["reason"] += EVIL
    made = msgspec.convert(document, Plan)
    return msgspec.structs.replace(made, digest=digest_of(made))


@pytest.fixture
def saved(plan: Plan, tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(dump(plan))
    return str(path)


@pytest.mark.parametrize("form", ["table", "markdown", "shell", "json", "ansible", "cloud-init", "dockerfile"])
def test_a_plan_is_rendered_visibly(form: str, saved: str, call: Call) -> None:
    done = call("render", saved, "--format", form)
    assert done.code == 0, done.err
    assert unseen(done.out + done.err) == set()


def test_a_dry_run_and_the_question_are_visible(saved: str, call: Call, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian"\n')
    for words in (("--dry-run",), ()):
        assert is_seen(call("install", saved, "--root", str(tree), *words))


def test_a_hosts_words_are_visible(call: Call, tmp_path: Path) -> None:
    host: Any = msgspec.to_builtins(plan_for("cuda", "ubuntu22.04").host)
    host["driver"] = {**(host.get("driver") or {}), "version": f"535{EVIL}"}
    host["kernel"] = f"6.1{EVIL}"
    path = tmp_path / "host.json"
    path.write_bytes(msgspec.json.encode(host))
    for words in (("plan", "cuda"), ("explain", "cuda"), ("plan", "driver"), ("explain", "tensorrt", "driver")):
        done = call(*words, "--host", str(path))
        assert unseen(done.out + done.err) == set(), words
        assert done.out or done.err


def test_a_lock_is_compared_visibly(plan: Plan, call: Call, tmp_path: Path) -> None:
    lock = tmp_path / "stack.lock.json"
    lock.write_text(locks.dump(locks.of_plan(plan, host=plan.host)))
    (tmp_path / "tree/etc").mkdir(parents=True)
    for form in ("text", "json", "cyclonedx"):
        done = call("status", "--lock", str(lock), "--root", str(tmp_path / "tree"), "--format", form)
        assert done.code in {0, 6}, done.err
        assert unseen(done.out + done.err) == set()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_model_repository_is_judged_visibly(form: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / EVIL).mkdir()
    (tmp_path / EVIL / "config.pbtxt").write_text(f'name: "{EVIL}"\nplatform: "{EVIL}"\n')
    done = call("triton", "model-store", str(tmp_path), "--format", form)
    assert done.code == 1
    assert is_seen(done)


def test_facts_of_the_users_own_are_shown_visibly(call: Call, tmp_path: Path) -> None:
    document = {"schema": "gpustack/matrix/v1", "subject": "mine", "about": EVIL, "sources": {}, "tables": {}}
    (tmp_path / "mine.yaml").write_text(json.dumps(document))
    for words in (("list",), ("list", "mine"), ("list", "mine", "--format", "json")):
        assert is_seen(call("matrix", *words, "--matrices", str(tmp_path)))


@pytest.mark.parametrize(
    "words",
    [
        ("plan", EVIL),
        ("plan", f"{EVIL}==1", "--os", "debian12"),
        ("plan", "cuda", "--os", EVIL),
        ("plan", "cuda", "--os", "debian12", "--gpu", EVIL),
        ("plan", "cuda", "--host", f"/nowhere/{EVIL}"),
        ("render", f"/nowhere/{EVIL}"),
        ("install", f"/nowhere/{EVIL}.json", "--yes"),
        ("install", "--bundle", f"/nowhere/{EVIL}"),
        ("install", "--bundle", "/nowhere", "--fingerprint", EVIL),
        ("matrix", "show", EVIL),
        ("matrix", "list", EVIL),
        ("triton", EVIL, "/nowhere"),
        ("triton", "model-store", f"/nowhere/{EVIL}"),
        ("status", "--lock", f"/nowhere/{EVIL}"),
        (EVIL,),
    ],
    ids=lambda words: " ".join(words).replace(EVIL, "EVIL"),
)
def test_what_was_typed_is_repeated_visibly(words: tuple[str, ...], call: Call) -> None:
    done = call(*words)
    assert done.code in {1, 2, 3, 4}
    assert unseen(done.out + done.err) == set()
