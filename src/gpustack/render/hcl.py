"""Text in HashiCorp's configuration language, exact: nothing in it is interpreted."""

from __future__ import annotations

import json
import re

from gpustack.errors import UnsupportedError
from gpustack.visible import is_visible, one_line


def quoted(text: str) -> str:
    """A string on one line."""
    return _uninterpreted(json.dumps(one_line(text), ensure_ascii=False))


def heredoc(text: str) -> str:
    """A text of whole lines as a heredoc, which keeps every character. Raises UnsupportedError where it cannot."""
    if not text.endswith("\n") or not is_visible(text.replace("\n", "").replace("\t", "")):
        msg = "this plan has a text that HCL cannot hold: an invisible character, or a last line without an end"
        raise UnsupportedError(msg, code="not-renderable", hint="--format shell or cloud-init can")
    end = "GPUSTACK"
    while re.search(rf"(?m)^[ \t]*{end}[ \t]*$", text):
        end += "_"
    return f"<<{end}\n{_uninterpreted(text)}{end}\n"


def _uninterpreted(text: str) -> str:
    return text.replace("${", "$${").replace("%{", "%%{")
