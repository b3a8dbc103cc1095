"""Questions about images by tag and by content, and what is no image."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.reading import cases_in

import gpustack
from gpustack.detect.describe import describe
from gpustack.detect.images.read import is_place, read_image
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Gpu
from gpustack.model.image import ImageContent
from gpustack.model.request import Beside, Request
from gpustack.model.resolution import ImageAnswer
from gpustack.solve.check import check
from gpustack.solve.images.require_cuda import Told, holds

QUESTIONS: list[dict[str, Any]] = cases_in(Path(__file__).parents[2] / "cases/images.yaml")["questions"]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def configuration(environment: dict[str, str], machine: str = "amd64") -> dict[str, Any]:
    variables = [f"{name}={text}" for name, text in environment.items()]
    return {"architecture": machine, "os": "linux", "config": {"Env": variables}, "rootfs": {"type": "layers"}}


SITE = "opt/venv/lib/python3.12/site-packages"


def archive(files: dict[str, bytes], *, mode: str = "w") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as target:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return data.getvalue()


def saved(layers: list[dict[str, bytes]], environment: dict[str, str]) -> dict[str, bytes]:
    """What `docker save` writes: layers, a configuration, and a manifest at the end."""
    names = [f"{number:064x}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "c.json", "RepoTags": ["a:b"], "Layers": names}]
    return {
        **{name: archive(files) for name, files in reversed(list(zip(names, layers, strict=True)))},
        "c.json": json.dumps(configuration(environment)).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }


def content_of(folder: Path, question: dict[str, Any]) -> ImageContent:
    if "layers" in question:
        place = folder / "image.tar"
        layers = [
            {at.replace("site/", f"{SITE}/"): text.encode() for at, text in one.items()} for one in question["layers"]
        ]
        place.write_bytes(archive(saved(layers, question.get("env", {}))))
    elif "dockerfile" in question:
        place = folder / "Dockerfile"
        place.write_text(question["dockerfile"], encoding="utf-8")
    else:
        place = folder / "config.json"
        place.write_text(json.dumps(configuration(question["env"], question.get("machine", "amd64"))), encoding="utf-8")
    return read_image(place)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: f"{one['driver']}-{one['gpu']}-{one['expect'][1]}")
def test_a_question(question: dict[str, Any], tmp_path: Path, matrix: Matrix) -> None:
    host = describe(
        matrix, os="ubuntu22.04", arch=question.get("arch"), gpus=(question["gpu"],), driver=question["driver"]
    )
    image = question["image"] if "image" in question else content_of(tmp_path, question)
    verdict = check(matrix, host, Request(requirements=()), beside=Beside(image=image))
    assert isinstance(verdict.image, ImageAnswer)
    told = [*(one.reason for one in (*verdict.conflicts, *verdict.unknown)), *verdict.hints, *verdict.warnings]
    assert [verdict.verdict, verdict.image.runs] == question["expect"], told
    assert any(question.get("says", "") in text for text in [*told, ""])


GEFORCE = Gpu(name="GeForce RTX 4090", kind="consumer", compute_capability="8.9")
TESLA = Gpu(name="T4", kind="datacenter", compute_capability="7.5")


@pytest.mark.parametrize(
    ("text", "told", "answer"),
    [
        ("cuda>=12.8", Told(cuda="12.8", driver="570.1"), "yes"),
        ("cuda>=12.8 driver>=535", Told(cuda="12.4", driver="550.1"), "yes"),
        ("cuda>=12.8,driver>=535", Told(cuda="12.4", driver="550.1"), "no"),
        ("cuda!=12.8", Told(cuda="12.8", driver="570.1"), "no"),
        ("driver<551,driver>550", Told(cuda="12.4", driver="550.1"), "yes"),
        ("arch<8.0", Told(gpus=(TESLA,)), "yes"),
        ("arch<8.0", Told(gpus=(TESLA, GEFORCE)), "no"),
        ("brand=geforcertx", Told(gpus=(GEFORCE,)), "yes"),
        ("brand!=tesla", Told(gpus=(GEFORCE,)), "yes"),
        ("brand=tesla", Told(), "unknown"),
        ("cuda>=13", Told(), "unknown"),
        ("brand=tesla cuda>=12", Told(cuda="12.4", driver="550.1"), "yes"),
        ("memory>=3", Told(cuda="12.4", driver="550.1"), "unknown"),
        ("cuda>=x", Told(cuda="12.4", driver="550.1"), "unknown"),
    ],
)
def test_the_grammar_of_demands(text: str, told: Told, answer: str) -> None:
    assert holds(text, told) == answer


def digest_of(number: int) -> str:
    return f"sha256:{number:064x}"


def layout(config: dict[str, Any]) -> dict[str, bytes]:
    """The files of an OCI layout with an index in its index, and a manifest for another architecture first."""
    other = {"mediaType": "x", "digest": digest_of(9), "platform": {"os": "linux", "architecture": "arm64"}}
    mine = {"mediaType": "x", "digest": digest_of(2), "platform": {"os": "linux", "architecture": "amd64"}}
    documents = {
        "index.json": {"schemaVersion": 2, "manifests": [{"digest": digest_of(1)}]},
        f"blobs/sha256/{1:064x}": {"manifests": [other, mine]},
        f"blobs/sha256/{2:064x}": {"config": {"digest": digest_of(3)}, "layers": []},
        f"blobs/sha256/{3:064x}": config,
    }
    return {name: json.dumps(document).encode() for name, document in documents.items()}


CONFIG = configuration({"CUDA_VERSION": "12.8.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.8"})
SAVED = {
    "layer/layer.tar": b"\0" * 2000,
    "c.json": json.dumps(CONFIG).encode(),
    "manifest.json": json.dumps([{"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["layer/layer.tar"]}]).encode(),
}


@pytest.mark.parametrize("form", ["config", "inspect", "skopeo", "docker save", "oci tar", "gzip", "layout"])
def test_every_form_says_the_same(form: str, tmp_path: Path) -> None:
    place = tmp_path / "image"
    inner = CONFIG["config"]
    if form == "layout":
        for name, data in layout(CONFIG).items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    else:
        place.write_bytes({
            "config": json.dumps(CONFIG).encode(),
            "inspect": json.dumps([{"Id": "sha256:0", "Architecture": "amd64", "Config": inner}]).encode(),
            "skopeo": json.dumps({"Name": "x", "Architecture": "amd64", **inner}).encode(),
            "docker save": archive(SAVED),
            "oci tar": archive(layout(CONFIG)),
            "gzip": archive(SAVED, mode="w:gz"),
        }[form])  # fmt: skip
    found = read_image(place)
    assert (found.environment["CUDA_VERSION"], found.arch) == ("12.8.1", "x86_64")


NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "another text": b"hello, world\n",
    "another JSON": b'{"a": 1}',
    "a list": b"[1, 2]",
    "broken JSON": b'{"config": ',
    "a manifest": json.dumps({"schemaVersion": 2, "config": {}, "layers": []}).encode(),
    "variables that are numbers": json.dumps({"rootfs": {}, "config": {"Env": [1, 2]}}).encode(),
    "variables that are none": json.dumps({"rootfs": {}, "config": {"Env": "CUDA_VERSION=1"}}).encode(),
    "nested too deeply": b"[" * 100_000,
    "an archive without an image": archive({"a.txt": b"text"}),
    "an archive that is cut": archive(SAVED)[:1500],
    "a gzip file that is cut": gzip.compress(archive(SAVED))[:200],
    "a manifest that is none": archive({"manifest.json": b'{"Config": 3}'}),
    "a configuration that is elsewhere": archive({"manifest.json": b'[{"Config": "../../etc/passwd"}]'}),
    "an index in a circle": archive({
        "index.json": json.dumps({"manifests": [{"digest": digest_of(1)}]}).encode(),
        f"blobs/sha256/{1:064x}": json.dumps({"manifests": [{"digest": digest_of(1)}]}).encode(),
    }),
    "a digest that is a path": archive({
        "index.json": json.dumps({"manifests": [{"digest": "sha256:../../x"}]}).encode()
    }),
    "an architecture that is a number": json.dumps({"architecture": 3, "config": []}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", NONSENSE)
def test_what_is_no_image_is_refused(name: str, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(NONSENSE[name])
    with pytest.raises(UsageError) as raised:
        read_image(place)
    assert raised.value.code == "unreadable-file"


def test_an_image_that_a_compose_file_names_is_the_one_to_ask_about(tmp_path: Path) -> None:
    place = tmp_path / "compose.yaml"
    place.write_text('services:\n  a:\n    image: "nvidia/cuda:12.8.0-base-ubuntu22.04"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"no FROM is in it; check .*: --image nvidia/cuda:12\.8\.0-base-ubuntu22\.04"):
        read_image(place)


def test_an_image_of_another_system_does_not_run(tmp_path: Path) -> None:
    place = tmp_path / "config.json"
    place.write_text(json.dumps(CONFIG | {"os": "windows"}), encoding="utf-8")
    host = gpustack.describe("ubuntu24.04", gpus=["L4"], driver="580.95.05")
    found = gpustack.check(image=gpustack.image_content(place), host=host)
    assert [one.reason for one in found.conflicts] == ["The image is for windows; this host runs Linux."]
    assert found.image is not None
    assert found.image.runs == "does not run"


def test_links_lead_out_of_no_layout(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text(json.dumps(CONFIG), encoding="utf-8")
    blobs = tmp_path / "image/blobs/sha256"
    blobs.mkdir(parents=True)
    (tmp_path / "image/index.json").write_bytes(layout(CONFIG)["index.json"])
    (blobs / f"{1:064x}").symlink_to(outside)
    with pytest.raises(UsageError, match="missing in it"):
        read_image(tmp_path / "image")


def test_dockerfiles_in_every_spelling(tmp_path: Path) -> None:
    place = tmp_path / "Dockerfile"
    place.write_text(
        "# syntax=docker/dockerfile:1\n"
        "ARG TAG=12.8.1-base\nARG UNUSED\n"
        "from --platform=linux/arm64 nvidia/cuda:${TAG:-x}-ubuntu22.04 as first\n"
        "ARG TAG\nENV A=1 CUDA_VERSION='12.8.1'\nENV B some text\nLABEL maintainer=\"me\"\n"
        "RUN <<EOF\napt-get update\npip3 install 'torch==2.8.0+cu128' -r requirements.txt\nEOF\n"
        "FROM first\n"
        "RUN apt-get install -y x && \\\n  # a comment between\n  python3 -m pip install -U onnxruntime-gpu \\\n  && true\n"
        'RUN echo "unfinished\n',
        encoding="utf-8",
    )
    found = read_image(tmp_path)
    assert found.base == "nvidia/cuda:12.8.1-base-ubuntu22.04"
    assert found.arch == "aarch64"
    assert found.environment == {"A": "1", "CUDA_VERSION": "12.8.1", "B": "some text"}
    assert found.labels == {"maintainer": "me"}
    assert found.wheels == ("torch==2.8.0+cu128", "onnxruntime-gpu")
    assert (found.lines["base"], found.lines["CUDA_VERSION"], found.lines["wheels"]) == (4, 6, 9)


@pytest.mark.parametrize(
    ("text", "place"),
    [("nvidia/cuda:12.8.1-base-ubuntu22.04", False), ("./x", True), ("a.tar", True), ("x" * 5000, False)],
)
def test_names_and_files_are_told_apart(text: str, place: bool) -> None:
    assert is_place(text) is place
