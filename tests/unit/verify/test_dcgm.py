"""DCGM's diagnosis as each of its releases writes it. No DCGM can be had here: a script gives the answers.

Their forms are those that `HelperJsonBuildOutput` and what it calls write in dcgmi/Diag.cpp of github.com/NVIDIA/DCGM
at the tags v2.4.7, v3.1.8, v3.3.9 and v4.6.0, in jsoncpp's style; exit codes are the negative numbers of
dcgmlib/dcgm_structs.h, of which a shell sees the lowest byte; sentences are those of dcgmlib/dcgm_errors.h.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.results import CheckResult
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context, checks_of
from gpustack.verify.driver.dcgm import parse_diagnosis
from gpustack.verify.frame import runner

ISOLATE, RESET, CONFIG = 2, 6, 5
FAULT, ISOLATED, NO_CONNECTION = 226, 205, 235
"""DCGM_ST_NVVS_ERROR is -30, DCGM_ST_NVVS_ISOLATE_ERROR -51, DCGM_ST_CONNECTION_NOT_VALID -21."""

Ask = Callable[[str, int], CheckResult]


@pytest.fixture
def ask(healthy: Host, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    def run(said: str, code: int) -> CheckResult:
        (tmp_path / "answer").write_text(said)
        program = tmp_path / "dcgmi"
        program.write_text(f"#!/bin/sh\n[ \"$*\" = 'diag -r 1 -j' ] || exit 9\ncat {tmp_path}/answer\nexit {code}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        check = next(one for one in checks_of("driver") if one.id == "driver.dcgm")
        context = Context(host=healthy, matrix=matrix, runner=LocalRunner())
        folder = tmp_path / "work"
        folder.mkdir()
        return runner._Answer(context, runner._Required(frozenset(), frozenset()))(check, {}, folder)

    return run


def styled(document: dict[str, Any]) -> str:
    """As jsoncpp's `toStyledString` writes it: tabs, and a blank before each colon."""
    return json.dumps(document, indent="\t", separators=(",", " : ")) + "\n"


def told(result: CheckResult) -> tuple[str, str, str]:
    return result.status, result.reason or result.detail, result.fix


MENDS = "See the output of `dcgmi diag -r 1`."
DEPLOYMENT = ("Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks", "Persistence Mode",
              "Environment Variables", "Page Retirement/Row Remap", "Graphics Processes", "Inforom")  # fmt: skip


def third(version: str, **results: list[Any]) -> dict[str, Any]:
    """DCGM 2 and 3: nine tests of the software, one result each; ``results`` replaces some (`Persistence_Mode`)."""
    given = {name.replace("_", " "): value for name, value in results.items()}
    tests = [{"name": name, "results": given.pop(name, [{"status": "Pass"}])} for name in DEPLOYMENT]
    rest = [
        {"category": "Hardware", "tests": [{"name": name, "results": value} for name, value in given.items()]}
    ] if given else []  # fmt: skip
    return {
        "DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}, *rest]},
        "Driver Version Detected": "535.129.03",
        "GPU Device IDs": ["2330", "2330"],
        "GPU Device Serials": {"0": "1650000000000", "1": "1650000000001"},
        "version": version,
    }


def fourth(*results: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """DCGM 4: one test called software, a result for each entity, and a summary."""
    entities = [{"device_id": "2330", "entity_id": number, "serial_num": f"165{number}"} for number in range(2)]
    test = {"name": "software", "results": list(results), "test_summary": summary}
    return {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [test]}]},
        "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 0}],
        "metadata": {"Driver Version Detected": "580.159.04", "version": "4.6.0"},
    }


def entity(number: int, status: str, **more: Any) -> dict[str, Any]:
    return {"entity_group": "GPU", "entity_group_id": 0, "entity_id": number, "status": status, **more}


def warning(text: str, number: int, severity: int, category: int = 10) -> dict[str, Any]:
    return {"error_category": category, "error_id": number, "error_severity": severity, "warning": text}


REMAP = "GPU 1 had uncorrectable memory errors and row remapping failed."
PENDING = "GPU 1 had memory errors and row remappings are pending"
PERSISTENCE = "Persistence mode for GPU 0 is disabled."


@pytest.mark.parametrize("version", ["2.4.7", "3.1.8", "3.3.9"])
def test_all_is_well_with_dcgm_2_and_3(ask: Ask, version: str) -> None:
    assert told(ask(styled(third(version)), 0)) == ("pass", f"DCGM {version}: dcgmi diag -r 1 passes", "")


def test_all_is_well_with_dcgm_4(ask: Ask) -> None:
    said = styled(fourth(entity(0, "Pass"), entity(1, "Pass"), summary={"status": "Pass"}))
    assert told(ask(said, 0)) == ("pass", "DCGM 4.6.0: dcgmi diag -r 1 passes on 2 GPUs", "")


def test_a_skipped_test_is_named(ask: Ask) -> None:
    """github.com/NVIDIA/DCGM issue 139: tests that DCGM skips on a card that it has no limits for."""
    said = styled(third("3.3.9", GPU_Memory=[{"gpu_id": "0", "status": "Skip"}]))
    assert told(ask(said, 0))[1] == "DCGM 3.3.9: dcgmi diag -r 1 passes on 1 GPU; skipped: GPU Memory"


FAULTS = [
    (
        "3.1 writes warnings as text and GPUs as gpu_ids",
        third("3.1.8", GPU_Memory=[{"gpu_ids": "0", "status": "Pass"}, {"gpu_ids": "1", "status": "Fail", "warnings": REMAP}]),
        FAULT,
        f"DCGM 3.1.8 found a fault: GPU Memory on GPU 1: {REMAP}",
        MENDS,
    ),
    (
        "3.3 calls the text of a software test's warning `warnings`",
        third("3.3.9", Persistence_Mode=[
            {"gpu_id": 0, "status": "Fail", "warnings": [
                {"error_category": 8, "error_id": 29, "error_severity": CONFIG, "warnings": PERSISTENCE}]}]),
        FAULT,
        f"DCGM 3.3.9 found a fault: Persistence Mode on GPU 0: {PERSISTENCE} (error 29)",
        MENDS,
    ),
    (
        "3.3 leaves a hole for a GPU that ran no test, and tells what isolates before what can be set",
        third("3.3.9",
              Persistence_Mode=[{"gpu_id": 0, "status": "Fail", "warnings": [
                  {"error_category": 8, "error_id": 29, "error_severity": CONFIG, "warnings": PERSISTENCE}]}],
              GPU_Memory=[None, {"gpu_id": "1", "status": "Fail", "warnings": [warning(REMAP, 80, ISOLATE)]}]),
        ISOLATED,
        f"DCGM 3.3.9 found a fault: GPU Memory on GPU 1: {REMAP} (error 80); and 1 more",
        "take that GPU out of service: DCGM requires its isolation",
    ),
    (
        "4 names entities",
        fourth(entity(0, "Pass"), entity(1, "Fail", warnings=[warning(PENDING, 85, RESET)]),
               summary={"status": "Fail", "warnings": [warning(PENDING, 85, RESET)]}),
        FAULT,
        f"DCGM 4.6.0 found a fault: software on GPU 1: {PENDING} (error 85)",
        "stop all programs on that GPU, then run `sudo nvidia-smi --gpu-reset` with `-i 1`, or reboot",
    ),
    (
        "4 tells in the summary alone what is no single GPU's",
        fourth(summary={"status": "Fail", "warnings": [warning("Found driver on the denylist: nouveau", 23, CONFIG, 3)]}),
        FAULT,
        "DCGM 4.6.0 found a fault: software: Found driver on the denylist: nouveau (error 23)",
        MENDS,
    ),
    (
        "a failure without a reason",
        third("2.4.7", Inforom=[{"status": "Fail"}]),
        FAULT,
        "DCGM 2.4.7 found a fault: Inforom: no reason reported",
        MENDS,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("document", "code", "reason", "fix"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_a_fault_is_told_with_test_gpu_and_number(
    ask: Ask, document: dict[str, Any], code: int, reason: str, fix: str
) -> None:
    assert told(ask(styled(document), code)) == ("fail", reason, fix)


def refused(root: str, version: str, why: str) -> str:
    return styled({root: {"runtime_error": why, "version": version}}) + "\n"


AGAIN = "retry; the commands and their output are under 'evidence' in the JSON report (`--format json`)"
REFUSALS = [
    (
        # github.com/NVIDIA/DCGM issue 59: DCGM 3.0.4 under driver 525.60.13
        refused("DCGM GPU Diagnostic", "3.0.4", "Detected unsupported Cuda version"),
        FAULT,
        ("error", "DCGM 3.0.4: Detected unsupported Cuda version",
         "install a newer DCGM: this one does not support the driver's CUDA"),
    ),
    (
        refused("DCGM Diagnostic", "4.6.0",
                "Error: Diagnostic could not be run because the Tesla recommended driver is not being used."),
        250,
        ("skip", "DCGM 4.6.0: Diagnostic could not be run because the Tesla recommended driver is not being used.", ""),
    ),
    (
        refused("DCGM Diagnostic", "4.6.0", "Error: Diagnostic can only be performed on a homogeneous group of GPUs."),
        239,
        ("error", "DCGM 4.6.0: Diagnostic can only be performed on a homogeneous group of GPUs.",
         "create a group of identical GPUs with `dcgmi group`, then run `dcgmi diag -r 1 -g GROUP`"),
    ),
    (
        refused("DCGM Diagnostic", "4.6.0",
                "Error: Unable to complete diagnostic. Return: (-39) : A DCGM diagnostic is already running\n"),
        217,
        ("error", "DCGM 4.6.0: Unable to complete diagnostic. Return: (-39) : A DCGM diagnostic is already running",
         "retry when the other diagnostic run has ended"),
    ),
    (
        refused("DCGM Diagnostic", "4.6.0", "Error: Diagnostic could not be run while DCGM is paused."),
        202,
        ("error", "DCGM 4.6.0: Diagnostic could not be run while DCGM is paused.", "`dcgmi test --resume`, then retry"),
    ),
    (
        "Error: unable to establish a connection to the specified host: localhost\n"
        "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n",
        NO_CONNECTION,
        ("skip", "DCGM is installed, but its host engine is not running", "`sudo systemctl start nvidia-dcgm`"),
    ),
    ("", 1, ("error", "dcgmi ends with exit code 1: no output", AGAIN)),
    ("{}\n", 0, ("error", "dcgmi ends with exit code 0: {}", AGAIN)),
    (styled(third("3.3.9")), 200, ("error", "DCGM 3.3.9 ended with exit code 200 and reported no failed test", AGAIN)),
    (styled({"DCGM Diagnostic": {}}), 0, ("error", "DCGM ran no test", AGAIN)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "code", "expected"),
    REFUSALS,
    ids=["unknown-cuda", "geforce", "mixed", "twice", "paused", "no-engine", "silent", "empty", "code", "no-tests"],
)
def test_a_diagnosis_that_was_not_made_is_no_verdict(
    ask: Ask, said: str, code: int, expected: tuple[str, str, str]
) -> None:
    assert told(ask(said, code)) == expected


@pytest.mark.parametrize("text", ["[1]", "{", '{"other": {}}', '{"DCGM Diagnostic": 3}', "null"])
def test_what_is_not_dcgms_is_not_read(text: str) -> None:
    assert parse_diagnosis(text) is None
