"""The releases of a component, as Renovate reads a custom datasource of the format "json".

    gpustack matrix export cuda.releases | python3 renovate.py > cuda.json

renovate.json: {"customDatasources": {"cuda": {"defaultRegistryUrlTemplate": "https://your.site/cuda.json"}}}
"""

import json
import sys

facts = json.load(sys.stdin)
((name, table),) = facts["tables"].items()
releases = []
for row in table["rows"]:
    if row.get("status", "released") == "released":
        when = {"releaseTimestamp": f"{row['date']}T00:00:00Z"} if len(row.get("date", "")) == 10 else {}
        releases.append({"version": row["version"], **when})
json.dump({"releases": releases}, sys.stdout, indent=2)
