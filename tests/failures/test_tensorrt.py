"""What is said where TensorRT builds or runs an engine, and something goes wrong; and what is said where all goes well.

The modules are the stand-ins of ``tests/media/stubs``, the trtexecs are scripts: none of the real ones works without a GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.failures.conftest import Ask, Compare, Scripted, told
from tests.failures.test_media import script
from tests.media.test_tensorrt_eras import STUBS, settings, stands_in
from tests.unit.verify.conftest import HEALTHY

from gpustack.model.host import Host
from gpustack.model.results import CheckResult
from gpustack.verify.tensorrt.libraries import Binding
from gpustack.verify.tensorrt.onnx import OUTPUT, load_digits

__all__ = ["stands_in"]
ERA = "10.13.3.9"
MODULE = Binding(python=sys.executable, module="tensorrt", version=ERA)
RTX = Binding(python=sys.executable, module="tensorrt_rtx", version="1.7.1.116")
Build = Callable[..., CheckResult]


@pytest.fixture
def with_module(ask: Ask, stands_in: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """A check of a host whose Python has a stand-in of TensorRT or of TensorRT-RTX, with a fault."""
    shutil.copy(STUBS / "tensorrt_rtx_era.py", stands_in / "tensorrt_rtx.py")
    for name, value in settings(stands_in, ERA).items():
        monkeypatch.setenv(name, value)

    def run(identity: str, module: Binding, fault: str = "") -> CheckResult:
        monkeypatch.setenv("TENSORRT_ERA_FAULT", fault)
        monkeypatch.setenv("TENSORRT_RTX_FAULT", fault)
        return ask(identity, HEALTHY, known={"tensorrt libraries": (), "tensorrt bindings": (module,)})

    return run


def test_a_module_of_tensorrt_that_fails(with_module: Build, compare: Compare) -> None:
    texts = {"well": with_module("tensorrt.build", MODULE).detail}
    for fault in ("crash build", "crash run", "cut"):
        texts |= told(fault, with_module("tensorrt.build", MODULE, fault))
    compare("tensorrt-module", texts)


def test_a_module_of_tensorrt_rtx_that_fails(with_module: Build, compare: Compare) -> None:
    texts = {"well": with_module("tensorrt.rtx", RTX).detail}
    for fault in ("crash build", "crash run", "other", "cut", "refuse"):
        texts |= told(fault, with_module("tensorrt.rtx", RTX, fault))
    compare("tensorrt-rtx", texts)


PASSED = "&&&& PASSED TensorRT.trtexec [TensorRT v{version}] # trtexec"
TRTEXEC = """\
what=build
for word; do case $word in
--help) echo '&&&& RUNNING TensorRT.trtexec [TensorRT v{version}] # trtexec'; exit ;;
--saveEngine=*) {engine} "${{word#*=}}" ;;
--loadEngine=*) what=run ;;
--exportOutput=*) {output} "${{word#*=}}" ;;
esac; done
[ $what = build ] || {{ {run}; }}
echo '{passed}'
"""


def test_a_trtexec_that_does_not_do_what_it_says(
    ask: Ask, compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "engine"
    engine.write_bytes((b"ftrt" + bytes(12) + (100).to_bytes(8, "little") + bytes((10, 3, 0, 26))).ljust(100, b"\0"))
    files = {
        "right": json.dumps([{"name": OUTPUT, "values": load_digits().probabilities[0]}]),
        "other": json.dumps([{"name": "logits", "values": []}]),
        "broken": "[",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    well = {"version": "100300", "engine": f"cp {engine}", "output": f"cp {tmp_path}/right", "run": ":"}
    cases = {
        "well": {},
        "before 7.0": {"version": "6001"},
        "no engine": {"engine": ":"},
        "does not run": {"run": "echo '[E] Error[1]: out of memory'; exit 1"},
        "no output file": {"output": ":"},
        "no such output": {"output": f"cp {tmp_path}/other"},
        "broken output": {"output": f"cp {tmp_path}/broken"},
    }
    texts: dict[str, str] = {}
    for name, parts in cases.items():
        filled = {**well, **parts}
        folder = tmp_path / name.replace(" ", "-")
        script(folder / "trtexec", TRTEXEC.format(**filled, passed=PASSED.format(**filled)))
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
        result = ask("tensorrt.build", HEALTHY, known={"tensorrt libraries": (), "tensorrt bindings": ()})
        if name in {"well", "before 7.0"}:
            assert result.status == "pass", result
            texts[name] = result.detail.replace(str(tmp_path), "$TMP")
        else:
            texts |= told(name, result)
    compare("tensorrt-trtexec-claims", texts)


def test_an_engine_that_is_only_looked_at(ask: Ask, compare: Compare, tmp_path: Path) -> None:
    """One whose header nobody can read yet, and one of TensorRT-RTX, which tells its GPUs."""
    unknown, rtx = tmp_path / "model.plan", tmp_path / "rtx.plan"
    unknown.write_bytes((b"ftrt" + b"\1" + bytes(11) + (100).to_bytes(8, "little")).ljust(100, b"\0"))
    numbers = bytes((1, 7, 1, 116)) + bytes(4)
    rtx.write_bytes((b"vtrt" + bytes(12) + (100).to_bytes(8, "little") + numbers + b"\x0a").ljust(100, b"\0"))

    def one(identity: str, module: Binding, engine: Path | None = None, host: Host = HEALTHY) -> CheckResult:
        known = {"tensorrt libraries": (), "tensorrt bindings": (module,)}
        return ask(identity, host, on=Scripted(), known=known, given={"engine": str(engine)} if engine else {})

    same = tmp_path / "same.plan"
    version = bytes(int(number) for number in ERA.split("."))
    same.write_bytes((b"ftrt" + bytes(12) + (100).to_bytes(8, "little") + version).ljust(100, b"\0"))
    (l4,) = HEALTHY.gpus
    h200 = msgspec.structs.replace(l4, name="H200", compute_capability="9.0")
    mixed = msgspec.structs.replace(HEALTHY, gpus=(h200, l4))
    others = msgspec.structs.replace(HEALTHY, gpus=(h200,))

    python = msgspec.structs.replace(MODULE, python="python3")
    compare(
        "tensorrt-looked-at",
        {
            **told("unknown header", one("tensorrt.engine", MODULE, unknown)),
            **told("unknown GPU", one("tensorrt.engine", MODULE, same)),
            "for two GPUs": one("tensorrt.engine", RTX, rtx).detail,
            "for one GPU of the host": one("tensorrt.engine", RTX, rtx, mixed).detail,
            **told("for no GPU of the host", one("tensorrt.engine", RTX, rtx, others)),
            "library inside": one("tensorrt.found", python).detail,
        },
    )
