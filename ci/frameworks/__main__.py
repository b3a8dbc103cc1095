"""Write matrices/generated/frameworks.yaml again: the wheels of frameworks in the default package index.

    .venv/bin/python ci/frameworks CACHE [--cached] [NAME...]

CACHE is a folder for what was read inside wheels, one JSON file a wheel; wheels that are there are not read again
(all of them anew: about 12 GB), and with ``--cached`` no further libraries are. NAME limits which frameworks are read;
rows of the others stay. "nvidia" are the files of NVIDIA's wheels that a framework is pinned to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from facts_form import ROOT, canonical, flow
from frameworks import rows
from frameworks.digest import digest
from frameworks.recipes import RECIPES
from frameworks.remote import metadata, page
from gpustack.matrix.load import parse_yaml
from update.record import Row
from update.sources.index import wheels_of

TABLE = ROOT / "matrices" / "generated" / "frameworks.yaml"

READ = "2026-11-24"
"""The day of this reading."""


def main(cache: Path, names: list[str], *, libraries: bool) -> None:
    session = requests.Session()
    cache.mkdir(parents=True, exist_ok=True)
    old = parse_yaml(TABLE.read_text(encoding="utf-8"))["tables"]
    builds: list[Row] = [row for row in (old["framework_builds"]["rows"] or []) if row["component"] not in names]
    files: list[Row] = [row for row in (old["framework_files"]["rows"] or []) if row["component"] not in names]
    wanted: dict[str, set[str]] = {}
    if "nvidia" in names:
        names.remove("nvidia")
        builds = [row for row in builds if row["component"] != rows.TOOLKIT]
        releases = rows.toolkit_releases(builds)
        toolkits = [one for one in wheels_of(page(rows.TOOLKIT)) if rows.release(one) in releases]
        builds += [rows.toolkit(one, metadata(session, one)) for one in toolkits]
        wanted = rows.pinned(builds)
        files = [row for row in files if row["component"] in RECIPES]
        files += [row for name in wanted for row in rows.pinned_files(wheels_of(page(name)), wanted[name])]
    for name in names:
        wheels = wheels_of(page(name))
        read = [rows.read_inside(found) for found in rows.sets(name, wheels).values()]
        digests = {one.file: json.loads(digest(session, one, cache, libraries=libraries).data) for one in read}
        builds += rows.builds(name, wheels, digests)
        files += rows.files(name, wheels)
        print(name, len(digests), "builds", flush=True)
    _write(builds, files, read={*names, *wanted})


def _write(builds: list[Row], files: list[Row], *, read: set[str]) -> None:
    front, _, rest = TABLE.read_text(encoding="utf-8").partition("sources:\n")
    kept = parse_yaml(TABLE.read_text(encoding="utf-8"))["sources"]
    names = sorted({row["component"] for row in (*builds, *files)})
    origins = {rows.source_of(name): _origin(name) for name in names}
    origins |= {rows.source_of(name): kept[rows.source_of(name)] for name in names if name not in read}
    sources = "".join(f"  {name}: {flow(origin)}\n" for name, origin in origins.items())
    first = rest.partition("tables:\n")[2].partition("    rows:")[0]
    head = f"{front}sources:\n{sources}tables:\n{first}"
    middle = TABLE.read_text(encoding="utf-8").partition("  framework_files:\n")[2].partition("    rows:\n")[0]
    lines = [head + "    rows:\n", *(f"      - {flow(row)}\n" for row in builds)]
    lines += ["  framework_files:\n" + middle + "    rows:\n", *(f"      - {flow(row)}\n" for row in files)]
    TABLE.write_text(canonical("".join(lines)), encoding="utf-8")


def _origin(name: str) -> Row:
    recipe = RECIPES.get(name)
    makes = "framework_files" if recipe is None or recipe.library else "framework_builds framework_files"
    note = "metadata of its wheels, and the libraries in them, as ci/frameworks reads them"
    return {"address": f"pkg:pypi/{name}", "known": "tested", "read": READ, "note": note, "makes": makes}


if __name__ == "__main__":
    ASKED = [name for name in sys.argv[2:] if name != "--cached"]
    main(Path(sys.argv[1]), ASKED or [*RECIPES, "nvidia"], libraries="--cached" not in sys.argv)
