"""Write matrices/generated/cuda-redist.yaml again from the vendor's manifests: the archives of the CUDA toolkit.

    .venv/bin/python ci/regenerate_archives.py FOLDER

FOLDER holds redistrib_<version>.json files. Each has to have its row, with its sha256, in matrices/cuda-manifests.yaml.
The archives of these releases are written anew, those of all others stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from facts_form import ROOT, canonical, flow
from gpustack.matrix.load import parse_yaml

TABLE = ROOT / "matrices" / "generated" / "cuda-redist.yaml"
MANIFESTS = ROOT / "matrices" / "cuda-manifests.yaml"
ADDRESS = "https://developer.download.nvidia.com/compute/cuda/redist/"
OF_THE_DRIVER = {
    "driver_assistant",
    "fabricmanager",
    "imex",
    "libnvidia_nscq",
    "libnvsdm",
    "nvidia_driver",
    "nvidia_fs",
    "nvidia_imex",
    "nvlsm",
}
"""Parts of the vendor's CUDA manifests that belong to the driver and not to the toolkit."""


def regenerate(folder: Path, table: Path = TABLE) -> str:
    """The file with the archives of the manifests in ``folder``. Raises ValueError where one is not as it is known."""
    known = {row["version"]: row.get("sha256", "") for row in _rows(MANIFESTS, "manifests")}
    fresh: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("redistrib_*.json")):
        release = path.stem.removeprefix("redistrib_")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if not known.get(release) or known[release] != found:
            msg = f"{path}: sha256 {found}, but {MANIFESTS.name} has {known.get(release) or 'none'} for {release}"
            raise ValueError(msg)
        fresh[release] = list(archives(release, json.loads(path.read_bytes())))
    kept = [row for row in _rows(table, "archives") if row["version"] not in fresh]
    head, _, _ = table.read_text(encoding="utf-8").partition("    rows:\n")
    rows = [*kept, *(row for found in fresh.values() for row in found)]
    return canonical(head + "    rows:\n" + "".join(f"      - {flow(row)}\n" for row in rows))


def archives(release: str, manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of one manifest."""
    for part, about in manifest.items():
        if not isinstance(about, dict) or part in OF_THE_DRIVER:
            continue
        for platform, files in about.items():
            if not isinstance(files, dict):
                continue
            variants = {"": files} if "relative_path" in files else files
            for variant, file in variants.items():
                yield _row(release, part, platform, variant.removeprefix("cuda"), file)


def _row(release: str, part: str, platform: str, cuda: str, file: dict[str, str]) -> dict[str, Any]:
    address = ADDRESS + file["relative_path"]
    return {
        "component": "cuda",
        "version": release,
        "method": "zip" if address.endswith(".zip") else "tar",
        "part": part,
        "platform": platform,
        **({"cuda": cuda} if cuda else {}),
        "file": address.rpartition("/")[2],
        "url": address,
        "sha256": file["sha256"],
        "size": file["size"],
        "src": ["manifest"],
    }


def _rows(path: Path, table: str) -> list[dict[str, Any]]:
    document: Any = parse_yaml(path.read_text(encoding="utf-8"))
    return list(document["tables"][table]["rows"])


def main(arguments: list[str]) -> int:
    """Write the file; 2 where the folder is missing, or a manifest is not the known one."""
    try:
        TABLE.write_text(regenerate(Path(arguments[0])), encoding="utf-8")
    except (IndexError, OSError, ValueError) as exc:
        print(f"{exc}\n{__doc__}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
