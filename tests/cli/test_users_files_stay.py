"""Files of the user's own are neither replaced nor lose a line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PLAN = ("plan", "cuda", "--os", "debian12", "--gpu", "L4")


def test_plan_replaces_no_file_that_is_not_a_lock(call: Callable, tmp_path: Path) -> None:
    place = tmp_path / "prod.lock.json"
    place.write_text("precious\n")
    ended = call(*PLAN, "--lock", str(place))
    assert ended.is_told(2)
    assert ended.err.startswith("error[unreadable-lock]: ")
    assert place.read_text() == "precious\n"
    place.write_text("")
    for _ in range(2):
        assert call(*PLAN, "--lock", str(place)).code == 0
    assert '"gpustack/lock/v1"' in place.read_text()


def test_an_inventory_keeps_the_users_lines_until_its_hosts_change(call: Callable, tmp_path: Path) -> None:
    one, two, out = (tmp_path / name for name in ("web1.json", "web2.json", "out"))
    assert call(*PLAN, "--out", str(one)).code == 0
    render = ("render", str(one), "--format", "ansible", "--out", str(out))
    assert call(*render).code == 0
    inventory = out / "inventory.yml"
    written = inventory.read_text()
    inventory.write_text(written.replace("web1: {}", "web1: {ansible_host: 192.0.2.1}  # rack 4"))
    mine = inventory.read_text()
    assert mine != written

    assert call("plan", "cuda==12.9.1", "--os", "debian12", "--gpu", "L4", "--out", str(one)).code == 0
    assert call(*render).code == 0
    assert inventory.read_text() == mine, "another plan for the same hosts has replaced it"

    two.write_bytes(one.read_bytes())
    more = ("render", str(one), str(two), "--format", "ansible", "--out", str(out))
    ended = call(*more)
    assert ended.is_told(2)
    assert "inventory.yml: has lines of your own, and its hosts or groups have changed" in ended.err
    assert inventory.read_text() == mine
    inventory.write_text(written)
    assert call(*more).code == 0
    assert "web2: {}" in inventory.read_text()
