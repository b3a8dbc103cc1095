"""The layers of images: every form that they come in, and archives that are hostile or damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.detect.images.inside import with_files
from gpustack.detect.images.layers import Budget, Layer, merged, read_layer
from gpustack.detect.images.read import read_image
from gpustack.model.image import ImageContent

SITE = "usr/local/lib/python3.12/dist-packages"
FILES = {
    f"{SITE}/torch-2.8.0.dist-info/METADATA": b"Name: torch\nVersion: 2.8.0\n\ntext\n",
    f"{SITE}/torch/version.py": b"__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\n",
    f"{SITE}/nvidia_cudnn_cu12-9.10.2.21.dist-info/METADATA": b"Name: nvidia-cudnn-cu12\n",
    f"{SITE}/requests-2.32.0.dist-info/METADATA": b"Name: requests\n",
    "opt/conda/pkgs/x/lib/python3.11/site-packages/torch-1.13.0.dist-info/METADATA": b"Name: torch\n",
    "usr/local/cuda-12.8/version.json": b'{"cuda": {"version": "12.8.1"}}',
    "usr/local/cuda-12.8/compat/libcuda.so.570.124.06": b"x",
    "usr/lib/x86_64-linux-gnu/libnvinfer.so.10.9.0": b"x",
    "usr/lib/os-release": b'PRETTY_NAME="Ubuntu 24.04.2 LTS"\n',
}
CONFIG = {"architecture": "amd64", "config": {"Env": ["PATH=/bin"]}, "rootfs": {"type": "layers"}}


def archive(files: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as target:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))
        for member in special:
            target.addfile(member)
    return data.getvalue()


def entry(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def layout(layer: bytes) -> dict[str, bytes]:
    digests = [f"sha256:{number:064x}" for number in range(3)]
    documents = [
        {"config": {"digest": digests[1]}, "layers": [{"mediaType": "x", "digest": digests[2]}]},
        CONFIG,
    ]
    blobs = {f"blobs/sha256/{at:064x}": json.dumps(one).encode() for at, one in enumerate(documents)}
    index = json.dumps({"manifests": [{"digest": digests[0]}]}).encode()
    return {f"blobs/sha256/{2:064x}": layer, **blobs, "index.json": index}


def docker(layer: bytes) -> dict[str, bytes]:
    manifest = [{"Config": "c.json", "Layers": ["a/layer.tar"]}]
    return {"a/layer.tar": layer, "c.json": json.dumps(CONFIG).encode(), "manifest.json": json.dumps(manifest).encode()}


def write_folder(place: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)


def content_of(place: Path, layer: bytes) -> ImageContent:
    place.write_bytes(archive(docker(layer)))
    return read_image(place)


@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("form", ["docker", "docker, packed", "archive", "layout"])
def test_every_form_says_what_is_in_it(form: str, packed: Callable[[bytes], bytes], tmp_path: Path) -> None:
    place = tmp_path / "image"
    layer = packed(archive(FILES))
    if form == "layout":
        write_folder(place, layout(layer))
    else:
        whole = archive(layout(layer) if form == "archive" else docker(layer))
        place.write_bytes(gzip.compress(whole) if "packed" in form else whole)
    found = read_image(place)
    torch = next(one for one in found.installed if one.name == "torch")
    assert (found.layers, torch.version, torch.cuda) == ("read", "2.8.0", "12.8")
    assert {one.name for one in found.installed} == {"torch", "nvidia-cudnn-cu12"}
    assert (found.toolkit, found.compat, found.system) == ("12.8.1", "570.124.06", "Ubuntu 24.04.2 LTS")
    assert found.libraries == {"cudnn": "9.10.2.21", "tensorrt": "10.9.0"}


def test_equal_layers_of_docker_are_links(tmp_path: Path) -> None:
    files = docker(archive(FILES))
    files["manifest.json"] = b'[{"Config": "c.json", "Layers": ["b/layer.tar", "a/layer.tar"]}]'
    place = tmp_path / "image"
    place.write_bytes(archive(files, entry("b/layer.tar", tarfile.SYMTYPE, "../a/layer.tar")))
    assert read_image(place).toolkit == "12.8.1"


def layer_of(files: dict[str, bytes], *special: tarfile.TarInfo) -> Layer:
    return read_layer(io.BytesIO(archive(files, *special)), Budget())


METADATA = f"/{SITE}/torch-2.8.0.dist-info/METADATA"


@pytest.mark.parametrize(
    ("above", "is_there"),
    [
        (layer_of({f"{SITE}/.wh.torch-2.8.0.dist-info": b""}), False),
        (layer_of({f"{SITE}/torch-2.8.0.dist-info/.wh.METADATA": b""}), False),
        (layer_of({f"{SITE}/.wh.torch": b""}), True),
        (layer_of({f"{SITE}/.wh..wh..opq": b""}), False),
        (layer_of({".wh.usr": b""}), False),
        (layer_of({".wh..wh..opq": b""}), False),
        (layer_of({f"{SITE}/.wh..wh.plnk": b""}), True),
        (layer_of({}, entry("usr/local", tarfile.SYMTYPE, "/opt")), False),
        (layer_of({f"{SITE}/.wh.torch-2.8.0.dist-info": b"", **FILES}), True),
        (layer_of({**FILES, f"{SITE}/.wh..wh..opq": b""}), True),
    ],
    ids=lambda one: "/".join((*one.removed, *one.emptied)) if isinstance(one, Layer) else "",
)
def test_whiteouts_hide_what_is_below_and_nothing_of_their_own_layer(above: Layer, is_there: bool) -> None:
    assert (METADATA in merged([layer_of(FILES), above])) is is_there


def test_a_hard_link_has_the_content_of_its_file() -> None:
    other = "opt/venv/lib/python3.12/site-packages/torch/version.py"
    found = layer_of(FILES, entry(other, tarfile.LNKTYPE, f"{SITE}/torch/version.py"))
    assert found.added[f"/{other}"] == FILES[f"{SITE}/torch/version.py"]


@pytest.mark.parametrize("name", ["../../etc/os-release", "/etc/os-release", "./etc/os-release", "a/../etc/os-release"])
def test_paths_lead_out_of_no_image(name: str) -> None:
    content = with_files(ImageContent(name="x", form="x"), merged([layer_of({name: b"PRETTY_NAME=Own\n"})]))
    assert content.system == "Own"


def long_header() -> bytes:
    member = tarfile.TarInfo("a")
    member.pax_headers = {"comment": "x" * (1 << 20)}
    return member.tobuf(format=tarfile.PAX_FORMAT)


def backwards() -> bytes:
    member = tarfile.TarInfo("a")
    data = bytearray(member.tobuf())
    data[124:136] = b"\xff" * 10 + b"\xf0\x00"  # -4096
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


HOSTILE = {
    "no archive": b"text" * 1000,
    "cut": archive(FILES)[:700],
    "packed and cut": gzip.compress(archive(FILES))[:-30],
    "packed by zstd": b"\x28\xb5\x2f\xfd" + b"\0" * 600,
    "a header that is too long": long_header() + archive(FILES),
    "headers without end": tarfile.TarInfo("a" * 200).tobuf(format=tarfile.GNU_FORMAT)[:1024] * 2000 + b"\0" * 1024,
    "a size below zero": backwards() + archive(FILES),
    "a damaged header between": archive(FILES)[:1024] + b"x" * 512 + archive(FILES),
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_layers_that_cannot_be_read_are_named_and_the_configuration_counts(name: str, tmp_path: Path) -> None:
    found = content_of(tmp_path / "image", HOSTILE[name])
    assert found.layers.startswith("one ")
    assert found.environment == {"PATH": "/bin"}
    assert found.installed == ()


def test_a_missing_layer_is_said(tmp_path: Path) -> None:
    files = docker(b"")
    del files["a/layer.tar"]
    place = tmp_path / "image"
    place.write_bytes(archive(files))
    assert read_image(place).layers == "not all of them are in the file"


@pytest.mark.parametrize(
    ("limit", "why"),
    [({"entries": 3}, "more entries"), ({"size": 1000}, "larger than any image"), ({"seconds": -1}, "takes longer")],
)
def test_reading_is_bounded(limit: dict[str, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_layer(io.BytesIO(gzip.compress(archive(FILES))), Budget(**limit))


def test_devices_and_pipes_are_passed_over() -> None:
    found = layer_of({}, entry("usr/lib/os-release", tarfile.FIFOTYPE), entry("etc/os-release", tarfile.CHRTYPE))
    assert found.added == {}
