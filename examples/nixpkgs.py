"""The archives of one CUDA release, as nixpkgs keeps a manifest in pkgs/development/cuda-modules/_cuda/manifests/cuda.

gpustack matrix export cuda-redist.archives | python3 nixpkgs.py 13.0.2
"""

import json
import sys

facts = json.load(sys.stdin)
release = sys.argv[1]
manifest = {"release_label": release, "release_product": "cuda"}
for row in facts["tables"]["cuda-redist.archives"]["rows"]:
    if row["version"] != release:
        continue
    part = manifest.setdefault(row["part"], {})
    part["version"] = row["file"].removeprefix(f"{row['part']}-{row['platform']}-").split("-archive")[0]
    entry = {"relative_path": row["url"].partition("/redist/")[2], "sha256": row["sha256"], "size": str(row["size"])}
    place = part.setdefault(row["platform"], {}) if "cuda" in row else part
    place[f"cuda{row['cuda']}" if "cuda" in row else row["platform"]] = entry
json.dump(manifest, sys.stdout, indent=4)
