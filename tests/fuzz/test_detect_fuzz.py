"""Nothing found on a machine, and no word on the command line, makes detect raise or hang."""

from __future__ import annotations

import contextlib
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.detect.api import detect
from gpustack.detect.build import host_of
from gpustack.detect.describe import describe
from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.hostfile import dump, parse
from gpustack.detect.parse import repositories, toolkit
from gpustack.detect.parse.os_release import operating_system, parse_os_release
from gpustack.detect.parse.packages import parse_dpkg_status, parse_rpm_lines
from gpustack.detect.parse.rpm_header import parse_header
from gpustack.detect.record import redact
from gpustack.detect.text import lines
from gpustack.errors import DocumentError, UnsupportedError, UsageError
from gpustack.matrix.index import Matrix, load_matrix

SETTINGS = settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NUMBERS = st.sampled_from(
    ["580.95.05", "13.0", "9.14.0.64-1", "1" * 30, "-1", "0x10de", "0x2335\n", "٣.٤", "1.2.3.4.5.6", ""]
)
WORDS = st.one_of(st.text(max_size=30), NUMBERS)
KEYS = st.sampled_from(["ID", "VERSION_ID", "ID_LIKE", "PLATFORM_ID", "UBUNTU_CODENAME", "VERSION_CODENAME", "NAME"])
PATHS = st.sampled_from(
    [
        "/etc/os-release", "/proc/version", "/proc/modules", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/arch",
        "/proc/driver/nvidia/version", "/sys/module/nvidia/version", "/var/lib/dkg/status", "/var/lib/dpkg/status",
        "/var/lib/dpkg/arch", "/etc/apt/sources.list", "/etc/apt/sources.list.d/cuda.sources", "/etc/ld.so.conf",
        "/etc/ld.so.conf.d/x.conf", "/etc/yum.repos.d/cuda.repo", "/etc/dnf/modules.d/nvidia-driver.module",
        "/etc/apt/preferences.d/cuda", "/etc/cdi/nvidia.yaml", "/usr/local/cuda-12.4/version.json", "/etc/zypp/locks",
        "/usr/local/cuda-12.4/version.txt", "/usr/include/cudnn_version.h", "/usr/include/NvInferVersion.h",
        "/usr/lib/pkgconfig/ffnvcodec.pc", "/etc/nv_tegra_release", "/boot/grub2/grubenv", "/proc/1/environ",
        "/proc/device-tree/compatible", "/proc/device-tree/model", "/var/log/dpkg.log", "/etc/modprobe.d/x.conf",
        "/run/reboot-required.pkgs", "/etc/environment", "/opt/tritonserver/TRITON_VERSION",
        "/sys/bus/pci/devices/0000:01:00.0/vendor", "/sys/bus/pci/devices/0000:01:00.0/device",
        "/sys/bus/pci/devices/0000:01:00.0/class", "/sys/bus/pci/devices/0000:01:00.0/subsystem_device",
    ]
)  # fmt: skip
LIBRARY = st.builds(
    "{}.so.{}".format, st.sampled_from(["libcuda", "libcudnn", "libnvinfer", "libnccl", "libcudart"]), WORDS
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)
GPU_KEYS = st.sampled_from(
    ["name", "uuid", "bus_id", "device_id", "subsystem_id", "compute_capability", "memory_mib", "mig"]
)
NVML = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(["driver", "cuda", "error", "gpus"]), JSON, max_size=4),
    st.fixed_dictionaries({"driver": JSON, "gpus": st.lists(st.dictionaries(GPU_KEYS, JSON, max_size=8), max_size=3)}),
)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@SETTINGS
@given(st.lists(st.builds("{}={}".format, KEYS, WORDS), max_size=8), st.text(max_size=60))
def test_os_release(matrix: Matrix, pairs: list[str], rest: str) -> None:
    values = parse_os_release("\n".join(pairs) + rest)
    operating_system(values, matrix.systems)
    operating_system(values, matrix.systems, manager_hint="apt")


@SETTINGS
@given(
    st.lists(st.builds("{}: {}".format, st.sampled_from(["Package", "Version", "Status", "Maintainer", ""]), WORDS)),
    st.text(),
)
def test_dpkg_status(fields: list[str], rest: str) -> None:
    for text in ("\n".join(fields), "\n\n".join(fields), rest, "\n".join(fields) + rest):
        for package in parse_dpkg_status(text):
            assert isinstance(package.upstream, str)


@SETTINGS
@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=40)))
def test_rpm_lines(parts: list[str]) -> None:
    parse_rpm_lines(("\t".join(parts), *parts))


@SETTINGS
@given(st.binary(max_size=300), st.integers(0, 40), st.integers(0, 400))
def test_rpm_header(blob: bytes, entries: int, size: int) -> None:
    for data in (
        blob,
        struct.pack(">II", entries, size) + blob,
        struct.pack(">II", 1, 20) + struct.pack(">IIII", 1000, 6, 0, 1) + blob,
    ):
        found = parse_header(data)
        assert found is None or all(isinstance(part, str) for part in found)


@SETTINGS
@given(st.text(max_size=300), JSON)
def test_version_files(text: str, document: Any) -> None:
    import json

    toolkit.parse_version_json(text)
    toolkit.parse_version_json(json.dumps(document))
    toolkit.parse_version_txt(text)
    toolkit.parse_version_txt("CUDA Version " + text)
    toolkit.cudnn_header(text)
    toolkit.tensorrt_header("#define NV_TENSORRT_MAJOR NV_TENSORRT_MAJOR\n" + text)
    assert toolkit.parse_version_json("[" * 100_000) is None


@SETTINGS
@given(st.text(max_size=300), WORDS)
def test_package_sources(text: str, word: str) -> None:
    for source in (
        text,
        f"deb [{word}] https://{word}/nvidia {text}",
        f"URIs: {word}\n {text}\n\nURIs:{text}",
        f"[{word}]\nbaseurl={text}",
    ):
        repositories.parse_one_line("a", source)
        repositories.parse_deb822("a", source)
        repositories.parse_repo_file("a", source)


@SETTINGS
@given(st.binary(max_size=300))
def test_key_files(data: bytes) -> None:
    for content in (
        data,
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + data + b"\n-----END",
        b"\x99" + data,
        b"\xc6" + data,
    ):
        repositories.fingerprints(content)


@SETTINGS
@given(
    st.dictionaries(PATHS, WORDS, max_size=12),
    st.dictionaries(
        st.sampled_from(["/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64", "/boot"]), st.lists(LIBRARY, max_size=5)
    ),
    st.lists(st.tuples(LIBRARY, LIBRARY), max_size=4),
    NVML,
    st.lists(WORDS, max_size=3),
)
def test_whole_evidence(
    matrix: Matrix,
    files: dict[str, str],
    listings: dict[str, list[str]],
    links: list[tuple[str, str]],
    nvml: dict[str, Any] | None,
    rpms: list[str],
) -> None:
    evidence = Evidence(
        files=files,
        listings={"/sys/bus/pci/devices": ("0000:01:00.0",), **{k: tuple(v) for k, v in listings.items()}},
        links={f"/usr/lib/x86_64-linux-gnu/{a}": b for a, b in links},
        nvml=nvml,
        rpms=tuple(rpms),
        commands={"modinfo -F version nvidia": CommandOutput(code=0, out=rpms[0] if rpms else "")},
        date="2026-11-21",
    )
    host = host_of(evidence, matrix)
    assert parse(dump(host).encode("utf-8", "replace")).schema == host.schema
    assert all(isinstance(line, str) for line in lines(host))
    redact(evidence)


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(
    st.dictionaries(PATHS, st.binary(max_size=200), max_size=10),
    st.lists(st.tuples(PATHS, st.one_of(PATHS, WORDS)), max_size=4),
)
def test_whole_trees(files: dict[str, bytes], links: list[tuple[str, str]]) -> None:
    matrix = load_matrix()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, target in links:
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if target and "\0" not in target and not place.is_symlink():
                try:
                    place.symlink_to(target)
                except (OSError, UnicodeEncodeError):
                    continue
        for path, data in files.items():
            place = root / path.lstrip("/")
            if not place.is_symlink():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        dump(detect(root, matrix))


@SETTINGS
@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=40), st.text(max_size=12))
def test_described_hosts(matrix: Matrix, os: str, arch: str, gpu: str, driver: str) -> None:
    for given_os, given_arch, given_gpu, given_driver in (
        (os, "x86_64", "T4", None), ("ubuntu24.04", arch, "T4", None), ("ubuntu24.04", None, gpu, None),
        ("ubuntu24.04", None, "10de:" + gpu, None), ("ubuntu24.04", None, "cc:" + gpu, None), ("ubuntu24.04", None, "T4", driver),
        ("ubuntu" + os, None, "RTX " + gpu, None),
    ):  # fmt: skip
        with contextlib.suppress(UsageError, UnsupportedError):
            describe(matrix, os=given_os, arch=given_arch, gpus=(given_gpu,), driver=given_driver)


@SETTINGS
@given(st.binary(max_size=100), JSON)
def test_host_documents(data: bytes, value: Any) -> None:
    import json

    whole = json.dumps({"schema": "gpustack/host/v1", "os": value, "gpus": [value], "installed": {"driver": value}})
    for content in (data, whole.encode(), json.dumps({"schema": "gpustack/host/v1", "problems": value}).encode()):
        with contextlib.suppress(DocumentError):
            parse(content)
