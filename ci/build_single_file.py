"""Build gpustack as one file that runs on any Linux of this architecture, with an old Python or with none.

    .venv/bin/python ci/build_single_file.py [--to dist/gpustack.run]

The file is a shell script with an archive behind it: this interpreter, its C library and loader, gpustack and what it
imports. At the first start it unpacks itself into a cache folder; then it starts the program there with the loader of
its own, by arguments: no variable of the environment changes, so the programs that gpustack starts are the host's.
The same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import hashlib
import io
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from bootstrap import ROOT, say

SHELL = """#!/bin/sh
# gpustack {version} for {machine}. Everything after this script is an archive: see ci/build_single_file.py.
set -u
name=gpustack-{digest}
fail() {{
    echo "error[no-temporary-folder]: gpustack cannot unpack itself: $1" >&2
    echo "hint: name a folder of yours with 150 MB: GPUSTACK_PROGRAM_FOLDER=/srv/gpustack $0" >&2
    exit 1
}}
usable() {{ # a folder of ours that nobody else writes to, and that programs may start from
    [ -n "$1" ] || return 1
    mkdir -p -m 700 "$1" 2>/dev/null
    [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -w "$1" ]
}}
starts() {{ "$1/bin/python3" -c pass >/dev/null 2>&1; }}
found=
for place in "${{GPUSTACK_PROGRAM_FOLDER:-}}" "${{XDG_CACHE_HOME:-${{HOME:+$HOME/.cache}}}}" /var/cache \\
    "${{TMPDIR:-/tmp}}/gpustack-$(id -u)"; do
    case $place in
    "" | /.cache) continue ;;
    /var/cache) [ "$(id -u)" = 0 ] || continue ;;
    esac
    folder=$place/gpustack-program
    if [ -x "$folder/$name/bin/python3" ] && [ -O "$folder/$name" ]; then
        found=$folder/$name
        break
    fi
    usable "$folder" || continue
    new=$(mktemp -d "$folder/.new-XXXXXX") || continue
    trap 'rm -rf "$new"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    if tail -n +{lines} "$0" | tar -xzf - -C "$new" 2>/dev/null && starts "$new"; then
        # Another process may have been first; then its tree is as good as ours.
        mv "$new" "$folder/$name" 2>/dev/null
        rm -rf "$folder/$name/${{new##*/}}" "$new"
        found=$folder/$name
        trap - EXIT INT TERM HUP
        break
    fi
    rm -rf "$new"
    trap - EXIT INT TERM HUP
done
[ -n "$found" ] || fail "no cache folder is writable, large enough and on a file system that programs may start from"
exec "$found/bin/gpustack" "$@"
"""
"""What the host needs for this: a shell, mkdir, mktemp, tail, tar, gzip, id, mv, rm."""

START = """#!/bin/sh
# Started by its own loader, with its own C library: those of the host may be older, or newer.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
exec "$here/lib/{loader}" --argv0 "$here/bin/python3" --library-path "$here/lib" "$here/lib/python" -I {words}"$@"
"""

UNUSED = re.compile(
    r"(test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|distutils|pydoc_data|__pycache__|config-\d.*|site-packages"
    r"|dist-packages|_tkinter.*|_test.*|_ctypes_test.*|_xxtestfuzz.*|xxlimited.*|ossaudiodev.*|nis\..*|_dbm.*|_gdbm.*"
    r"|_crypt.*|readline\..*|_curses.*|turtle\.py)"
)
"""Parts of Python's library that no command imports."""

STUBS = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libresolv.so.2", "libm.so.6", "libgcc_s.so.1",
         "libstdc++.so.6")  # fmt: skip
"""Libraries that the host's driver and CUDA libraries load: from one and the same C library as the program's."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "dist" / "gpustack.run")
    parser.add_argument("--wheel", type=Path, help="the wheel to take; made from this tree otherwise")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpustack-single-") as folder:
        tree = Path(folder) / "tree"
        version = build_tree(tree, asked.wheel)
        asked.to.parent.mkdir(parents=True, exist_ok=True)
        new = asked.to.with_name(f".{asked.to.name}.new")
        new.write_bytes(single_file(tree, version))
        new.chmod(0o755)
        new.replace(asked.to)
    say(f"{asked.to}: {asked.to.stat().st_size >> 20} MiB")


def single_file(tree: Path, version: str) -> bytes:
    """The script, and the archive behind it."""
    archive = packed(tree)
    digest = hashlib.sha256(archive).hexdigest()[:16]
    words = {"version": version, "machine": os.uname().machine, "digest": digest}
    text = SHELL.format(**words, lines=SHELL.count("\n") + 1)
    return text.encode() + archive


def packed(tree: Path) -> bytes:
    """The tree as tar.gz: names in order, no times, no owners."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            entry = archive.gettarinfo(str(path), str(path.relative_to(tree)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if path.is_dir() or entry.mode & 0o100 else 0o644
            if entry.isreg():
                with path.open("rb") as stream:
                    archive.addfile(entry, stream)
            else:
                archive.addfile(entry)
    return gzip.compress(raw.getvalue(), 9, mtime=0)


def build_tree(tree: Path, wheel: Path | None = None) -> str:
    """Everything that the program needs, as a folder that can lie anywhere; return gpustack's version."""
    library = tree / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    copy_library(library)
    install(library, wheel)
    for folder in (tree / "bin", tree / "lib"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(Path(sys.executable).resolve(), tree / "lib" / "python")
    loader = copy_libraries(tree)
    if shutil.which("strip"):
        objects = [path for path in (tree / "lib").rglob("*") if path.name == "python" or ".so" in path.name]
        subprocess.run(["strip", "--strip-unneeded", *map(str, objects)], check=False, stderr=subprocess.DEVNULL)
    for name, words in (("gpustack", "-m gpustack "), ("python3", "")):
        program = tree / "bin" / name
        program.write_text(START.format(loader=loader, words=words), encoding="utf-8")
        program.chmod(0o755)
    compile_again(library)
    made = subprocess.run([str(tree / "bin/gpustack"), "--version"], check=True, capture_output=True, text=True)
    return made.stdout.split()[-1]


def copy_library(to: Path) -> None:
    """Python's own library without what no command imports."""

    def unused(_: str, names: list[str]) -> set[str]:
        return {name for name in names if UNUSED.fullmatch(name)}

    shutil.copytree(sysconfig.get_path("stdlib"), to, ignore=unused, symlinks=False)
    extensions = Path(sysconfig.get_config_var("DESTSHARED") or to / "lib-dynload")
    if extensions.is_dir() and not (to / "lib-dynload").is_dir():
        shutil.copytree(extensions, to / "lib-dynload", ignore=unused)


def install(library: Path, wheel: Path | None) -> None:
    """gpustack and what it requires, in the folder that is always on the path of -I."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    quiet = ["--root-user-action=ignore", "--no-compile", "--no-warn-conflicts"]
    place = library / "site-packages"
    subprocess.run([*pip, *quiet, "--target", str(place), str(wheel or ROOT)], check=True)
    shutil.rmtree(place / "bin", ignore_errors=True)
    for info in place.glob("*.dist-info"):
        for name in ("RECORD", "direct_url.json", "INSTALLER", "REQUESTED"):
            (info / name).unlink(missing_ok=True)
    # Of -I only the library's own folder is certain: distributions of Python name that of packages in other ways.
    for path in list(place.iterdir()):
        shutil.move(str(path), str(library / path.name))
    place.rmdir()


def copy_libraries(tree: Path) -> str:
    """The shared libraries of every program and module in the tree, the loader's among them; return its name."""
    objects = [tree / "lib" / "python", *tree.rglob("*.so"), *tree.rglob("*.so.*")]
    found: dict[str, str] = {}
    loader = ""
    for path in objects:
        done = subprocess.run(["ldd", str(path)], check=False, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if match := re.match(r"\s*(\S+) => (/\S+)", line):
                found.setdefault(match[1], match[2])
            elif match := re.match(r"\s*(/\S*/(ld-linux\S+))", line):
                found.setdefault(match[2], match[1])
                loader = match[2]
    folders = {Path(place).parent for place in found.values()}
    for name in STUBS:
        place = next((folder / name for folder in sorted(folders) if (folder / name).exists()), None)
        if place is not None:
            found.setdefault(name, str(place))
    for name, place in found.items():
        if not Path(place).is_relative_to(tree):
            shutil.copy2(Path(place).resolve(), tree / "lib" / name)
            (tree / "lib" / name).chmod(0o755)
    return loader


def compile_again(library: Path) -> None:
    """Compiled modules that are not compared with their sources, and the same in every build."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(library, quiet=2, stripdir=str(library), workers=1, invalidation_mode=mode)


if __name__ == "__main__":
    main()
