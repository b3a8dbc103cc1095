"""The client of updates as the conformance suite of The Update Framework calls one.

    pytest tuf_conformance --entrypoint ".venv/bin/python ci/tuf_client.py"     in a checkout of the suite

The suite's protocol: its CLIENT-CLI.md. Transport and client are those of ``gpustack matrix update``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tuf.api.exceptions import DownloadError, RepositoryError

from gpustack.matrix.feed.client import client_of
from gpustack.matrix.feed.places import open_place

_ROOT = "trusted"
"""The root that the suite begins with. It is no .json: those in the folder are what the client made."""


def main(words: list[str]) -> int:
    asked = _parser().parse_args(words)
    folder = Path(asked.metadata_dir)
    if asked.action == "init":
        (folder / _ROOT).write_bytes(Path(asked.root).read_bytes())
        return 0
    try:
        _run(asked, folder)
    except (DownloadError, RepositoryError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _run(asked: argparse.Namespace, folder: Path) -> None:
    """Refresh the metadata, then download the targets that are not there yet. Raises RepositoryError."""
    with open_place(asked.metadata_url) as (fetcher, base):
        root = (folder / _ROOT).read_bytes()
        client = client_of(folder, root, fetcher, (base, asked.target_base_url), roles=32)
        client.refresh()
        for name in asked.target_name or ():
            target = client.get_targetinfo(name)
            if target is None:
                msg = f"{name} is not signed"
                raise RepositoryError(msg)
            place = str(Path(asked.target_dir) / name.replace("/", "_"))
            if client.find_cached_target(target, place) is None:
                client.download_target(target, place)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--metadata-dir", "--metadata-url", "--target-dir", "--target-base-url"):
        parser.add_argument(name, default="")
    parser.add_argument("--target-name", action="append")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("init").add_argument("root")
    actions.add_parser("refresh")
    actions.add_parser("download")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
