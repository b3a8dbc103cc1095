"""Build everything that a release consists of, twice, and compare: wheel, sdist, one file, .deb, .rpm.

    .venv/bin/python ci/build_release.py --to dist --day 2026-11-24

Next to them: SHA256SUMS, and the bill of materials of the program (CycloneDX). The .rpm is not compared: rpmbuild
writes the name of the machine into it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from bootstrap import ROOT, say


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    parser.add_argument("--day", required=True, help="the day of the release: 2026-11-24")
    asked = parser.parse_args()
    moment = datetime.strptime(asked.day, "%Y-%m-%d").replace(tzinfo=timezone.utc)
    os.environ["SOURCE_DATE_EPOCH"] = str(int(moment.timestamp()))
    with tempfile.TemporaryDirectory(prefix="gpustack-release-") as folder:
        first, second = (build(Path(folder) / name, asked.day) for name in ("first", "second"))
        differ = [name for name in first if first[name] != second[name] and not name.endswith(".rpm")]
        if differ:
            sys.exit(f"two builds differ: {', '.join(differ)}")
        asked.to.mkdir(parents=True, exist_ok=True)
        for path in sorted((Path(folder) / "first").iterdir()):
            shutil.copy2(path, asked.to / path.name)
    sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(first.items()))
    (asked.to / "SHA256SUMS").write_text(sums, encoding="utf-8")
    say(f"{asked.to}: {len(first)} files, the same in two builds")


def build(to: Path, day: str) -> dict[str, str]:
    """The files of one build and their sums."""
    to.mkdir()
    python = sys.executable
    subprocess.run([python, "-m", "build", "--quiet", "--outdir", str(to), str(ROOT)], check=True)
    subprocess.run([python, str(ROOT / "ci/build_single_file.py"), "--to", str(to / "gpustack.run")], check=True)
    subprocess.run([python, str(ROOT / "ci/build_packages.py"), "--to", str(to), "--day", day], check=True)
    bill = ["cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON", "-o", str(to / "gpustack.cdx.json")]
    subprocess.run([python, "-m", *bill], check=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(to.iterdir())}


if __name__ == "__main__":
    main()
