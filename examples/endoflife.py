"""The newest release of each driver branch, as endoflife.date keeps it in release-data/releases/nvidia-driver.json.

gpustack matrix export driver.releases | python3 endoflife.py
"""

import json
import sys

facts = json.load(sys.stdin)
rows = [row for row in facts["tables"]["driver.releases"]["rows"] if row.get("status") == "released"]
newest = {}
for row in sorted(rows, key=lambda row: [int(part) for part in row["version"].split(".")]):
    for system in row["os"]:
        newest[f"r{row['branch']}-{system}"] = row
releases = {}
for name, row in newest.items():
    releases[name] = {"name": name, "latest": row["version"]}
    if "date" in row:
        releases[name]["latestReleaseDate"] = row["date"]
    for address in [facts["sources"][key]["address"] for key in row["src"]]:
        if address.startswith("https://"):  # others describe what was examined
            releases[name].setdefault("link", address)
json.dump({"releases": releases, "versions": {}}, sys.stdout, indent=2)
