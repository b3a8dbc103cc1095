"""The first grave message is the cause; what follows from it is folded under it, and what does not is named apart."""

from __future__ import annotations

import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.solve.kernel_log import Message, Order, Xid, judge


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def test_two_gpus_with_troubles_of_their_own(matrix: Matrix) -> None:
    found = judge(
        matrix,
        "[ 10.1] NVRM: Xid (PCI:0000:1b:00): 48, pid=1, DBE\n[ 11.2] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        "[ 12.3] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n",
    )
    assert found.message == "Xid 48 at 0000:1b:00: an uncorrectable memory error"
    assert found.told == (
        "10.1 s after boot: NVRM: Xid (PCI:0000:1b:00): 48, pid=1, DBE; then Xid 154 (Node Reboot Required);"
        " besides Xid 79 at 0000:3b:00"
    )


def test_a_message_of_several_lines_has_the_time_of_its_first(matrix: Matrix) -> None:
    """github.com/NVIDIA/open-gpu-kernel-modules/issues/1027"""
    found = judge(
        matrix,
        "May 11 19:25:29 h kernel: NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\n"
        "                                 NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
    )
    assert found.when == "May 11 19:25:29"
    assert found.fix == "`gpustack install driver --kernel-module open`"


def test_fabric_manager_is_judged_since_it_last_worked(matrix: Matrix) -> None:
    failed = "h nv-fabricmanager[7]: fabric manager config file item: DATABASE_PATH has an invalid value\n"
    worked = (
        "h nv-fabricmanager[8]: Successfully configured all the available NVSwitches to route GPU NVLink traffic.\n"
    )
    assert judge(matrix, failed, log="fabric").message
    assert not judge(matrix, failed + worked, log="fabric").message
    assert judge(matrix, worked + failed, log="fabric").message
    assert not judge(matrix, failed).message


def test_the_order_names_messages_that_are_known_and_has_no_circle(matrix: Matrix) -> None:
    keys = {row.id for row in matrix.rows("driver-errors", "kernel_log", Message)}
    keys |= {f"xid-{row.number}" for row in matrix.rows("driver-errors", "xids", Xid)} | {"any"}
    order = {row.key: row.after for row in matrix.rows("driver-errors", "log_order", Order)}
    assert {*order} | {one for after in order.values() for one in after} <= keys

    def reaches(key: str, seen: tuple[str, ...] = ()) -> bool:
        return key in seen or any(reaches(one, (*seen, key)) for one in order.get(key, ()) if one != "any")

    assert not [key for key in order if reaches(key)]
