"""Build a .deb and an .rpm of gpustack, which hold a Python of their own and depend on nothing but a C shell's basics.

    .venv/bin/python ci/build_packages.py [--to dist] [--day 2026-11-24]

Both hold the tree of ci/build_single_file.py in /usr/lib/gpustack, the command, a manual page and completions for bash,
zsh and fish. rpmbuild and dpkg-deb make them; the same inputs give the same files in the .deb.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import build_man
import build_single_file
from bootstrap import ROOT, say

ABOUT = "Plan, install and verify NVIDIA GPU software stacks"
DESCRIPTION = """Plans, installs and verifies driver, CUDA, cuDNN, TensorRT, FFmpeg, Triton and Python frameworks
from a matrix of sourced facts. Holds the Python that it runs with."""
PLACE = "usr/lib/gpustack"
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/gpustack",
    "zsh": "usr/share/zsh/vendor-completions/_gpustack",
    "fish": "usr/share/fish/vendor_completions.d/gpustack.fish",
}
ARCHITECTURES = {"x86_64": ("amd64", "x86_64"), "aarch64": ("arm64", "aarch64")}
"""The words of dpkg and of rpm for this machine."""

CONTROL = """Package: gpustack-provision
Version: {version}
Architecture: {architecture}
Maintainer: gpustack
Section: admin
Priority: optional
Description: {about}
{description}
"""

SPEC = """Name: gpustack-provision
Version: {version}
Release: 1
Summary: {about}
License: Apache-2.0
AutoReqProv: no
%define __os_install_post %{{nil}}
%define _build_id_links none
%define _binary_payload w6.xzdio
%description
{description}
%files
/{place}
/usr/bin/gpustack
{files}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    parser.add_argument("--day", default="", help="the day in the manual page and on the files: 2026-11-24")
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpustack-packages-") as folder:
        tree = Path(folder) / "files"
        version = lay_out(tree, asked.day)
        for build in (build_deb, build_rpm):
            made = build(tree, version, asked.to, asked.day)
            say(f"{made}: {made.stat().st_size >> 20} MiB")


def lay_out(tree: Path, day: str) -> str:
    """The files as they are installed; return gpustack's version."""
    version = build_single_file.build_tree(tree / PLACE)
    program = tree / "usr/bin/gpustack"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec /{PLACE}/bin/gpustack "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    manual = tree / "usr/share/man/man1/gpustack.1.gz"
    manual.parent.mkdir(parents=True)
    manual.write_bytes(gzip.compress(build_man.page(day).encode(), 9, mtime=0))
    for shell, place in COMPLETIONS.items():
        given = {"PATH": os.environ["PATH"], "_GPUSTACK_COMPLETE": f"source_{shell}"}
        words = [sys.executable, "-m", "gpustack"]
        script = subprocess.run(words, env=given, check=True, capture_output=True, text=True).stdout
        (tree / place).parent.mkdir(parents=True)
        (tree / place).write_text(script, encoding="utf-8")
    return version


def build_deb(tree: Path, version: str, to: Path, day: str) -> Path:
    folder = tree.with_name("deb")
    shutil.copytree(tree, folder, symlinks=True)
    control = folder / "DEBIAN/control"
    control.parent.mkdir()
    architecture = ARCHITECTURES[os.uname().machine][0]
    lines = "\n".join(f" {line}" for line in DESCRIPTION.splitlines())
    words = {"version": version, "architecture": architecture, "about": ABOUT, "description": lines}
    control.write_text(CONTROL.format(**words), encoding="utf-8")
    made = to / f"gpustack-provision_{version}_{architecture}.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(folder), str(made)]
    subprocess.run(command, check=True, env={**os.environ, **_epoch(day)}, stdout=subprocess.DEVNULL)
    return made


def build_rpm(tree: Path, version: str, to: Path, day: str) -> Path:
    files = [f"/{path}" for path in (*COMPLETIONS.values(), "usr/share/man/man1/gpustack.1.gz")]
    words = {"version": version, "about": ABOUT, "description": DESCRIPTION, "place": PLACE, "files": "\n".join(files)}
    spec = tree.with_name("gpustack.spec")
    spec.write_text(SPEC.format(**words), encoding="utf-8")
    top = tree.with_name("rpm")
    root = tree.with_name("rpm-root")
    shutil.copytree(tree, root, symlinks=True)
    machine = ARCHITECTURES[os.uname().machine][1]
    command = [
        "rpmbuild",
        "-bb",
        "--quiet",
        "--target",
        machine,
        "--define",
        f"_topdir {top}",
        "--buildroot",
        str(root),
    ]
    settings = {**os.environ, **_epoch(day)}
    subprocess.run([*command, str(spec)], check=True, env=settings, stdout=subprocess.DEVNULL)
    (built,) = (top / "RPMS").rglob("*.rpm")
    return Path(shutil.copy2(built, to / built.name))


def _epoch(day: str) -> dict[str, str]:
    moment = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=timezone.utc) if day else None
    return {"SOURCE_DATE_EPOCH": str(int(moment.timestamp()))} if moment else {}


if __name__ == "__main__":
    main()
