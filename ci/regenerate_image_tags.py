"""Write matrices/generated/cuda-image-tags.yaml again: the tags of nvidia/cuda that NVIDIA's documents list.

    .venv/bin/python ci/regenerate_image_tags.py SOURCE=FOLDER ...

SOURCE is a source of the file, FOLDER holds that copy's supported-tags.md and unsupported-tags.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from facts_form import ROOT, canonical, flow
from gpustack.versions import version

TABLE = ROOT / "matrices" / "generated" / "cuda-image-tags.yaml"
DOCUMENTS = ("supported-tags.md", "unsupported-tags.md")
_TAG = re.compile(r"`(\d+\.\d+\.\d+)-([a-z0-9-]+)-([a-z]+[\d.]+)`")


def regenerate(folders: Iterable[tuple[str, Path]], table: Path = TABLE) -> str:
    """The file with the tags of the documents in ``folders``, one row for each release and system."""
    kinds: dict[tuple[str, str], dict[str, None]] = {}
    sources: dict[tuple[str, str], dict[str, None]] = {}
    for source, folder in folders:
        for name in DOCUMENTS:
            for cuda, kind, system in _TAG.findall((folder / name).read_text(encoding="utf-8")):
                kinds.setdefault((cuda, system), {})[kind] = None
                sources.setdefault((cuda, system), {})[source] = None
    head, _, _ = table.read_text(encoding="utf-8").partition("    rows:\n")
    rows: list[dict[str, Any]] = [
        {"cuda": cuda, "system": system, "kinds": sorted(kinds[cuda, system]), "src": list(sources[cuda, system])}
        for cuda, system in sorted(kinds, key=lambda pair: (version(pair[0]).key, pair[1]))
    ]
    return canonical(head + "    rows:\n" + "".join(f"      - {flow(row)}\n" for row in rows))


if __name__ == "__main__":
    TABLE.write_text(
        regenerate((source, Path(folder)) for source, _, folder in (word.partition("=") for word in sys.argv[1:])),
        encoding="utf-8",
    )
