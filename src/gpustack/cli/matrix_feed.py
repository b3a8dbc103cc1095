"""The actions of ``gpustack matrix`` about the age and the origin of the facts: status, update, rollback."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from gpustack.cli import frame


def show_status(*, as_json: bool) -> int:
    """Print date, digest, age, expiry and origin of the facts; then apply ``--max-facts-age``."""
    from gpustack.matrix.index import load_matrix

    facts = load_matrix(frame.settings().matrices)
    found = {"schema": "gpustack/facts-status/v1", "date": facts.date, "digest": facts.digest, **_state(facts.date)}
    if as_json:
        frame.document(frame.to_json(found))
    else:
        frame.page(_text(found))
    frame.demand_facts_age(facts.date)
    return 0


def _state(date: str) -> dict[str, Any]:
    """The keys of the status that are not about the content of the facts."""
    from gpustack import __version__, resources
    from gpustack.matrix.age import WARN_AFTER, age_of, time_of
    from gpustack.matrix.feed.generations import kept, origin_of
    from gpustack.matrix.store import read_index
    from gpustack.matrix.updates import folders, newest_store, site_overlays

    _, generation = newest_store()
    origin = origin_of(generation) if generation is not None else None
    own = {"kind": "checkout" if resources.is_checkout() else "installation", "version": __version__}
    updated = {"kind": "update", "folder": str(generation)}
    if origin is not None:
        updated |= {"source": origin.source, "installed": origin.installed}
    others = [path for folder in folders() for path in kept(folder) if path != generation]
    return {
        "age_days": max(0, age_of(date).days),
        "warns_from": f"{time_of(date) + WARN_AFTER + timedelta(days=1):%Y-%m-%d}",
        "expires": origin.expires if origin is not None else None,
        "origin": own if generation is None else updated,
        "kept": [
            {"folder": str(path), "date": index.date} for path in others if (index := read_index(path)) is not None
        ],
        "overlays": [str(path) for path in (*site_overlays(), frame.settings().matrices) if path is not None],
        "update_source": os.environ.get(SOURCE) or None,
    }


SOURCE = "GPUSTACK_FACTS_URL"
"""The environment variable with the address of updates. None is built in: nobody publishes them yet."""


def _text(found: dict[str, Any]) -> str:
    origin = found["origin"]
    lines = [
        f"facts of {found['date']}, {found['age_days']} day{'' if found['age_days'] == 1 else 's'} old",
        f"sha256 {found['digest']}",
    ]
    if origin["kind"] == "update":
        lines.append(f"from {origin.get('source', 'an unknown source')}, stored in {origin['folder']}")
        lines += [f"installed {origin['installed']}; its publisher renews it by {found['expires']}"] * bool(
            found["expires"]
        )
    elif origin["kind"] == "checkout":
        lines.append("from the files of this checkout")
    else:
        lines.append(f"built into gpustack {origin['version']}")
    lines.append(f"commands warn from {found['warns_from']} on")
    lines += [f"kept: facts of {one['date']} in {one['folder']}" for one in found["kept"]]
    lines += [f"with the facts of {one}" for one in found["overlays"]]
    if found["update_source"] is None:
        lines.append(f"no address of updates is set: `gpustack matrix update --from URL|FILE`, or {SOURCE}")
    return "\n".join(lines)


def update(source: str | None, trusted_root: Path | None) -> int:
    """Install the facts that a source publishes."""
    from gpustack.errors import UsageError
    from gpustack.matrix.feed.client import update as install_update
    from gpustack.matrix.store import open_store
    from gpustack.matrix.updates import own_folder

    chosen = source or os.environ.get(SOURCE)
    if not chosen:
        msg = "no address of updates is known: this gpustack was built without one"
        hint = f"--from URL|FILE names one, and so does the variable {SOURCE}; a newer gpustack has newer facts"
        raise UsageError(msg, code="no-update-source", hint=hint)
    done = install_update(own_folder(), chosen, trusted_root)
    news = "installed" if done.is_new else "nothing newer is published: they are in use already"
    frame.document(f"facts of {done.date}: {news}")
    built_in = open_store().index.date
    if built_in >= done.date:
        frame.warn(f"this gpustack has later facts ({built_in}), which stay in use")
    return 0


def roll_back() -> int:
    """Return to the facts before the last update."""
    import shlex

    from gpustack.matrix.feed.generations import only_writer, origin_of
    from gpustack.matrix.feed.generations import roll_back as return_to_earlier
    from gpustack.matrix.updates import current, newest_store, own_folder

    left = current(own_folder())
    origin = origin_of(left) if left and not os.environ.get(SOURCE) else None
    with only_writer(own_folder()):
        return_to_earlier(own_folder())
    store, generation = newest_store()
    place = "the installation's own" if generation is None else str(generation)
    again = f"gpustack matrix update{f' --from {shlex.quote(origin.source)}' if origin else ''}"
    frame.document(f"facts of {store.index.date} are in use ({place}); `{again}` undoes this")
    return 0
