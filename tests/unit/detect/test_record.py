"""Records hold no names of machines or people, and give back the same evidence."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gpustack.detect.evidence import CommandOutput, Evidence
from gpustack.detect.gather import gather
from gpustack.detect.record import read_record, record, redact, redact_text
from gpustack.errors import GpustackError, UsageError

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hosts"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("link 0a:1b:2c:3d:4e:5f up", "link 00:00:00:00:00:00 up"),
        ("from 10.12.0.7 to 2001:db8:1:2:3:4:5:6", "from 192.0.2.1 to 2001:db8::1"),
        ("GPU-12345678-1234-1234-1234-123456789abc", "GPU-redacted"),
        ("/home/alice/.local/lib", "/home/user/.local/lib"),
        ("https://bob:secret@repo.example/x", "https://repo.example/x"),
        ("mail alice@example.com", "mail user@example.org"),
        ("(dvs-builder@U22-I3)", "(builder@example)"),
        ("Serial: 0321\nhostname=node7\n", "Serial: redacted\nhostname= redacted\n"),
        ("Nov 21 06:50:01 node7 kernel: NVRM", "Nov 21 06:50:01 host kernel: NVRM"),
        ("libnvinfer10 10.13.3.9-1+cuda12.9", "libnvinfer10 10.13.3.9-1+cuda12.9"),
        ("deb http://10.1.2.3:8080/x; 10.1.2.0/24", "deb http://192.0.2.1:8080/x; 192.0.2.1/24"),
        ("580.95.05-0ubuntu1 0000:01:00.0 12.9.1.4", "580.95.05-0ubuntu1 0000:01:00.0 12.9.1.4"),
    ],
)
def test_redaction(text: str, clean: str) -> None:
    assert redact_text(text) == clean


def test_process_variables_and_foreign_configuration_are_dropped() -> None:
    evidence = Evidence(
        files={
            "/proc/1/environ": "HOME=/home/alice\nTOKEN=abc\nNVIDIA_VISIBLE_DEVICES=all\n",
            "/etc/apt/sources.list.d/private.list": "deb https://secret.example/x y z\n",
            "/etc/apt/sources.list.d/cuda.list": "deb https://developer.download.nvidia.com/x /\n",
        },
        environ={"LD_LIBRARY_PATH": "/home/alice/lib"},
        nvml={"gpus": [{"uuid": "GPU-x", "serial": "7", "name": "NVIDIA H200"}]},
    )
    clean = redact(evidence)
    assert clean.files == {
        "/proc/1/environ": "NVIDIA_VISIBLE_DEVICES=all\n",
        "/etc/apt/sources.list.d/cuda.list": "deb https://developer.download.nvidia.com/x /\n",
    }
    assert clean.environ == {"LD_LIBRARY_PATH": "/home/user/lib"}
    assert clean.nvml == {"gpus": [{"uuid": None, "serial": None, "name": "NVIDIA H200"}]}


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir()))
def test_a_record_gives_back_the_evidence(name: str, tmp_path: Path) -> None:
    evidence = read_record(FIXTURES / name) or gather(FIXTURES / name / "root")
    commands = {"gcc -dumpfullversion": CommandOutput(code=0, out="13.3.0\n")}
    evidence = msgspec.structs.replace(evidence, commands=commands)
    record(evidence, tmp_path / "record")
    again = read_record(tmp_path / "record")
    assert again is not None
    clean = redact(evidence)
    for field in Evidence.__struct_fields__:
        assert getattr(again, field) == getattr(clean, field), field


def test_recording_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("x", encoding="utf-8")
    with pytest.raises(GpustackError, match="not empty"):
        record(Evidence(), tmp_path)


def test_a_root_has_to_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        gather(tmp_path / "nowhere")


def test_broken_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "evidence.json").write_text("{", encoding="utf-8")
    with pytest.raises(GpustackError, match="not recorded evidence"):
        read_record(tmp_path)
    (tmp_path / "evidence.json").write_text('{"schema": "x"}', encoding="utf-8")
    assert read_record(tmp_path) is None
