# Copyright: The authors of gpustack
# Apache License 2.0 (see LICENSE)
"""gpustack on the host, and the documents that it prints."""

from __future__ import annotations

import json


def ask(module, words, what, keys):
    """The exit code, the document and the errors of a command. Fails the module if there is no document with C(keys)."""
    code, out, err = module.run_command([module.params["program"]] + words)
    try:
        document = json.loads(out)
        complete = all(key in document for key in keys)
    except (ValueError, TypeError):
        complete = False
    if not complete:
        module.fail_json(msg="gpustack gave no %s: %s" % (what, err.strip() or "no output"), rc=code)
    return code, document, err.strip()
