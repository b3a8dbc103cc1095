"""What pip, uv and Poetry say when they find no wheel of a framework, or releases that exclude each other."""

from __future__ import annotations

import re

from gpustack.detect.environments.names import DISTRIBUTIONS
from gpustack.detect.problems.cures import plan
from gpustack.detect.problems.phrases import Cause
from gpustack.detect.scene import Scene
from gpustack.model.frameworks import Build
from gpustack.patterns import later

ABOUT = later(
    r"No matching distribution found for |satisfies the requirement |is not a supported wheel on this platform|"
    r"doesn't have a source distribution or wheel|has no wheels with a matching |"
    r"Because there (?:is|are) no versions? of |Unable to find installation candidates for |"
    r"(?:have|ll have) \S+ \S+ which is incompatible|"
    r"because these package versions have conflicting"
)
"""Lines of these programs: all of them are failures."""

_NAME = r"(?P<name>[A-Za-z][\w.-]*)"
_VERSION = r"(?P<version>\d[\w.+!]*)"
_ABSENT = later(
    rf"(?:No matching distribution found for|satisfies the requirement) {_NAME}(?:\[[\w,.-]*\])?(?:=={_VERSION})?"
)
_UV = later(rf"Distribution `{_NAME}=={_VERSION} @ (?P<index>[^`]*)` can't be installed")
_TAG = later(
    rf"{_NAME}=={_VERSION} has no wheels with a matching (?P<what>[\w ]+) tag(?: \(e\.g\., `(?P<mine>\w+)`\))?"
)
_NONE = later(rf"Because there (?:is|are) no versions? of {_NAME}(?:=={_VERSION})?")
_POETRY = later(rf"installation candidates for {_NAME} \({_VERSION}\)")
_WHEEL = later(
    r"(?P<name>[A-Za-z][\w.]*)-(?P<version>[\w.+!]+)-(?:\d\w*-)?(?P<python>\w+)-\w+-(?P<platform>\w+)\.whl is not a"
)
_PINNED = later(
    rf"(?P<by>[A-Za-z][\w.-]*) (?P<of>\d\S*) requires {_NAME}(?P<range>[=<>~!][^\s;]*?)(?:;[^,]*)?, "
    r"but you(?:'ll)? have \S+ (?P<here>\d\S*) which is incompatible"
)
_CONFLICT = later(r"Cannot install (?P<all>.{3,200}?) because these package versions have conflicting dependencies")
_INDEX = later(r"download\.pytorch\.org/whl/(?P<local>cu\d+|cpu)")


def refused(scene: Scene, line: str) -> Cause | None:
    """What a resolver's message about a distribution of the GPU stack means."""
    wheel, uv, pinned, conflict = (form.search(line) for form in (_WHEEL, _UV, _PINNED, _CONFLICT))
    if wheel and _matters(wheel["name"]):
        return _tags(wheel)
    if uv and _matters(uv["name"]):
        index = _INDEX.search(uv["index"])
        return _plain(uv, index["local"]) if index and "+" not in uv["version"] else _absent(scene, uv)
    if pinned and _matters(pinned["name"]):
        return Cause(
            says=f"{pinned['by']} {pinned['of']} was made for {pinned['name']}{pinned['range']}, and the environment "
            f"now has {pinned['here']}: what is compiled against the other release does not load",
            fix=f"install both in one command (`pip install {pinned['by']}=={pinned['of']} "
            f"'{pinned['name']}{pinned['range']}'`), or a {pinned['by']} for {pinned['name']} {pinned['here']}; each "
            "in an environment of its own where two programs want two",
            sure=True,
        )
    if conflict and any(_matters(name) for name in re.findall(r"[A-Za-z][\w.-]*", conflict["all"])):
        return Cause(
            says=f"these releases exclude each other by what they require: {conflict['all']}",
            fix=f"{plan('torch', '--method', 'pip')} with the other names finds releases that go together; leave the "
            "versions open that need not be exact",
            sure=True,
        )
    found = next((one for form in (_TAG, _NONE, _POETRY, _ABSENT) if (one := form.search(line))), None)
    return _absent(scene, found) if found and _matters(found["name"]) else None


def _matters(name: str) -> bool:
    return re.fullmatch(DISTRIBUTIONS, name.replace("-", "_").lower()) is not None


def _tags(found: re.Match[str]) -> Cause:
    tag = re.fullmatch(r"cp(\d)(\d+)", found["python"])
    python = f"CPython {tag[1]}.{tag[2]}" if tag else f"Python ({found['python']})"
    return Cause(
        says=f"this wheel of {found['name']} is for {python} on {found['platform']}, and the Python that runs pip is "
        "another, or runs on another system",
        fix="`python3 --version` and `uname -m` say which tags fit (cp311 is CPython 3.11, aarch64 an Arm machine): "
        "take the wheel with these, and for the same PyTorch and CUDA; or make the environment with that Python",
        sure=True,
    )


def _plain(found: re.Match[str], local: str) -> Cause:
    name, version = found["name"], found["version"]
    return Cause(
        says=f"uv chose {name} {version} without +{local}: the index {local} has that number for other platforms, and "
        f"for this one {version}+{local}",
        fix=f"pin {name}=={version}+{local} (or a newer release) for this platform by a marker, or name it in "
        "required-environments of [tool.uv], so that uv demands a wheel for it; then `uv lock --upgrade-package "
        f"{name}`",
        sure=True,
    )


def _absent(scene: Scene, found: re.Match[str]) -> Cause:
    """No wheel for this Python, system and index: by the builds that the facts know."""
    from gpustack.solve.frameworks.catalog import Catalog  # noqa: PLC0415 (few logs have such a line)

    name, words = found["name"].lower().replace("_", "-"), found.groupdict()
    version, _, local = (words["version"] or "").partition("+")
    known = [one for one in Catalog(scene.matrix).everywhere(name) if one.version == version]
    mine = [one for one in known if one.local == local] if local else known
    newer = "" if name.startswith("nvidia-") else f"; {plan(name, '--method', 'pip')} names a release for this host"
    if known and not mine:
        locals_ = ", ".join(dict.fromkeys(one.local or "that of the default index" for one in known))
        return Cause(
            says=f"{name} {version} was never built as +{local}: its builds are {locals_}",
            fix=f"take one of these builds from its own index{newer}",
            sure=True,
        )
    if not mine:
        return Cause(
            says=f"the index that was asked has no wheel of {name} {version}".rstrip()
            + " for this Python, system and architecture",
            fix="`python3 --version` and `uname -m`: a Python that is new, old or 32-bit, and Arm machines have fewer "
            "wheels; builds with +cu come from their own index (--index-url https://download.pytorch.org/whl/cu128)",
        )
    return Cause(
        says=f"no wheel of {name} {words['version']} is for this Python, system or index: {_offers(mine)}"
        + (f"; this one wants {words['mine']}" if words.get("mine") else ""),
        fix=f"make the environment with a Python that it has wheels for (`uv venv --python 3.12`){_index(mine)}{newer}",
        sure=True,
    )


def _offers(builds: list[Build]) -> str:
    """For which Pythons and systems builds are."""
    pythons = " or ".join(dict.fromkeys(one.python for one in builds if one.python))
    systems = ", ".join(dict.fromkeys(one.platform for one in builds))
    return f"it has them for {f'Python {pythons} on ' if pythons else ''}{systems}"


def _index(builds: list[Build]) -> str:
    options = dict.fromkeys(one.index_option for one in builds if one.index)
    return f", from its index ({next(iter(options))})" if options and all(one.index for one in builds) else ""
