"""Spoilt folders: model repositories, trees and bundles, each with the command lines that read them; all kinds of inputs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.inputs import (
    HOSTS,
    QUESTIONS,
    Maker,
    Words,
    bare_tree,
    host,
    lock,
    overlay,
    perhaps_damaged,
    plan,
    spoilt,
    spoilt_lock,
    toml,
)
from tests.fuzz.mutations import TEXTS, damaged, respelled, written

GOOD_CONFIG = """\
name: "digits"
platform: "tensorrt_plan"
max_batch_size: 8
input [ { name: "in" data_type: TYPE_FP32 dims: [ 1, 28, 28 ] } ]
output [ { name: "out" data_type: TYPE_FP32 dims: [ 10 ] label_filename: "labels.txt" } ]
version_policy: { latest: { num_versions: 2 } }
instance_group [ { count: 1 kind: KIND_GPU gpus: [ 0 ] } ]
dynamic_batching { preferred_batch_size: [ 4 ] }
cc_model_filenames [ { key: "8.9" value: "model_89.plan" } ]
default_model_filename: "model.plan"
"""


def spoilt_text(rng: Random, text: str) -> bytes:
    for _ in range(rng.randrange(1, 4)):
        words = text.split(" ")
        place = rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                del words[place]
            case 1:
                words.insert(place, rng.choice(words))
            case 2:
                words[place] = json.dumps(rng.choice(TEXTS), ensure_ascii=False)
            case 3:
                words[place] = str(rng.choice((-1, 0, 10**40, 1.5, 2**31)))
            case _:
                words[place] = respelled(rng, words[place])
        text = " ".join(words)
    return perhaps_damaged(rng, text.encode("utf-8", "surrogatepass"))


def models(rng: Random, folder: Path) -> list[Words]:
    repository = folder / "models"
    model = repository / "digits"
    (model / "1").mkdir(parents=True)
    (model / "labels.txt").write_text("0\n1\n")
    engine = b"ftrt" + bytes(range(256))
    for name in ("model.plan", "model_89.plan"):
        (model / "1" / name).write_bytes(damaged(rng, engine) if rng.randrange(2) else engine)
    (model / "config.pbtxt").write_bytes(spoilt_text(rng, GOOD_CONFIG))
    for _ in range(rng.randrange(3)):
        odd(rng, repository)
    extra = rng.choice(((), ("--release", "25.03"), ("--release", "18.12"), ("--compute-capability", "9.0")))
    return [("triton", "model-store", str(repository), "--format", rng.choice(("text", "json")), *extra)]


def odd(rng: Random, top: Path) -> None:
    """Put something where nobody expects it below a folder, or in the place of what is there."""
    entries = sorted(path for path in top.rglob("*") if not path.is_symlink())
    place = rng.choice(entries) if entries else top
    name = rng.choice((*TEXTS, "\xff")).encode(
        "latin-1" if rng.randrange(2) else "utf-8", "xmlcharrefreplace" if rng.randrange(2) else "replace"
    )
    # A name of the file system: no slash, no NUL, 255 bytes.
    new = (
        os.fsencode(place if place.is_dir() else place.parent)
        + b"/"
        + (name.replace(b"/", b"_").replace(b"\0", b"")[:200] or b"x")
    )
    with suppress(OSError):  # there already
        match rng.randrange(6):
            case 0:
                os.mkdir(new)  # noqa: PTH102 (bytes)
            case 1:
                os.symlink(rng.choice((b"/etc/passwd", b"loop", b"..", b"/", name.replace(b"\0", b"") or b".")), new)  # noqa: PTH211
            case 2:
                os.mkfifo(new)
            case 3:
                os.rename(place, new)  # noqa: PTH104
            case 4 if place.is_file():
                place.write_bytes(damaged(rng, place.read_bytes()))
            case _ if place.is_file():
                place.unlink()
                rng.choice((place.mkdir, lambda: os.mkfifo(place), lambda: place.symlink_to(place.name)))()


TREES = ("healthy-ubuntu2404", "nonsense", "suse-g06-g07", "runfile-and-packages", "jetson-orin")


def tree(rng: Random, folder: Path) -> list[Words]:
    top = folder / "root"
    shutil.copytree(HOSTS / rng.choice(TREES) / "root", top, symlinks=True)
    files = sorted(path for path in top.rglob("*") if path.is_file() and not path.is_symlink())
    for path in rng.sample(files, rng.randrange(1, min(4, len(files)))):
        content = path.read_bytes()
        path.unlink()  # a hard link of the fixture's is left alone
        path.write_bytes(
            damaged(rng, content) if rng.randrange(3) else spoilt_text(rng, content.decode("utf-8", "replace"))
        )
    for _ in range(rng.randrange(4)):
        odd(rng, top)
    asked = (
        ("detect", "--root", str(top), "--format", rng.choice(("text", "json"))),
        ("plan", *rng.choice(QUESTIONS), "--root", str(top)),
        ("check", "cuda==12.4.1", "--root", str(top)),
        ("detect", "--root", str(top), "--record", str(folder / "record")),
    )
    return [rng.choice(asked)]


def bundle_of(forge: Any) -> Maker:
    """Spoilt bundles; ``forge`` makes and signs a good one (`tests.install.bundles.Forge`)."""
    good = {
        path.relative_to(forge.folder).as_posix(): path.read_bytes()
        for path in forge.folder.rglob("*")
        if path.is_file()
    }
    manifest = json.loads(good["manifest.json"])

    def bundle(rng: Random, folder: Path) -> list[Words]:
        files, said = dict(good), json.loads(json.dumps(manifest))
        if rng.randrange(3) == 0:
            files["lock.json"] = spoilt_lock(rng, good["lock.json"])
            seen = {"sha256": hashlib.sha256(files["lock.json"]).hexdigest(), "size": len(files["lock.json"])}
            said["files"]["lock.json"] = seen
            files["manifest.json"] = json.dumps(said).encode()
        else:
            files["manifest.json"] = perhaps_damaged(rng, written(spoilt(rng, said)))
        if rng.randrange(8):
            files["manifest.json.asc"] = forge.keys.detached(files["manifest.json"], forge.key)
        for name in rng.sample(sorted(files), rng.randrange(2)):
            files[name] = damaged(rng, files[name])
        top = folder / "bundle"
        for name, content in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(content)
        if rng.randrange(4) == 0:
            odd(rng, top)
        return [("install", "--bundle", str(top), "--root", str(bare_tree(folder, "debian", "12")), "--dry-run")]

    return bundle


KINDS: dict[str, Maker] = {
    "plan": plan,
    "host": host,
    "lock": lock,
    "toml": toml,
    "overlay": overlay,
    "model repository": models,
    "tree": tree,
}
"""All kinds but bundles, which need a key to be signed with."""
