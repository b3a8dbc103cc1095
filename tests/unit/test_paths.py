"""Looking for paths by a pattern agrees with the standard library's."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpustack.system.paths import glob

TREE = (
    "usr/lib/python3/dist-packages/a.pth", "usr/lib/python3.11/site-packages/b.pth", "usr/lib/python3.11/none/x",
    "opt/one[1]/bin/ffmpeg", "opt/.hidden/bin/ffmpeg", "opt/file", "usr/local/bin/x",
)  # fmt: skip
PATTERNS = (
    "usr/lib/python3*/*-packages", "usr/lib/python3*/*-packages/*.pth", "opt/*/bin", "usr/local/bin", "usr/local/none",
    "opt/file/*", "*", "opt/?ile", "opt/[a-g]*", "none/*/x", "opt/*[[]1]/bin/ffmpeg",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_finds_what_pathlib_finds(tmp_path: Path, pattern: str) -> None:
    root = tmp_path / "root [a*]"
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "opt/dangling").symlink_to("nowhere")
    assert glob(pattern, root) == [str(path) for path in sorted(root.glob(pattern))]


def test_from_the_root_of_this_machine() -> None:
    assert "/etc/passwd" in glob("/etc/pass*")
    assert glob("etc/passwd") == ["/etc/passwd"]
