"""``--index``: the package index that the formats of Python's installers name."""

from __future__ import annotations

from typing import Annotated

from gpustack.cli.declare import Option

IndexOption = Annotated[
    str | None,
    Option(
        "--index",
        metavar="URL",
        help="For requirements, uv, conda, pixi, pylock: the package index to name (default: the one that pip is set "
        "to, else none).",
    ),
]


def index_of(form: str, given: str | None) -> str:
    """The package index that a format names: the one given, else that of the user's pip; "" for none.

    Raises UsageError for an address that is none, or for another format.
    """
    from gpustack.render.api import PYTHON_FORMATS

    if given is None and form not in PYTHON_FORMATS:
        return ""
    import os
    from pathlib import Path

    from gpustack.cli import frame
    from gpustack.errors import UsageError
    from gpustack.system.pip_settings import address_of, default_index, has_login

    if given is None:
        return default_index(os.environ, Path("~").expanduser())
    if form not in PYTHON_FORMATS:
        msg = f"--index is for the formats {', '.join(PYTHON_FORMATS)}, and this one is {form!r}"
        raise UsageError(msg, code="conflicting-options", where="--index", hint="add --format requirements")
    address = address_of(given)
    if not address:
        msg = f"{given!r} is no address of a package index"
        raise UsageError(
            msg, code="invalid-value", where="--index", hint="for example --index https://index.example/simple"
        )
    if has_login(given):
        frame.warn("--index: name and password are not written; give them to the installer (.netrc, keyring)")
    return address
