#!/usr/bin/python
# Copyright: The authors of gpustack
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Verify the GPU stack of a host
version_added: "0.1.0"
description:
  - Runs C(gpustack verify) on the host, and fails with the reasons and fixes of the checks that failed.
  - Level V(quick) only reads. The levels V(smoke) and V(full) run small programs on the GPUs, in folders of their own.
author:
  - The authors of gpustack (@gpustack)
attributes:
  check_mode:
    description: The module changes nothing, so it does the same in check mode.
    support: full
options:
  components:
    description:
      - The components to verify, such as V(driver) and V(cuda). Each must be installed.
      - All components that are found by default.
    type: list
    elements: str
    default: []
  level:
    description: How much is proven.
    type: str
    choices: [quick, smoke, full]
    default: quick
  require:
    description: Components or checks that may not be skipped, or V(gpu).
    type: list
    elements: str
    default: []
  lock:
    description: A lock file on the host, which the host must match.
    type: path
  program:
    description: The program on the host.
    type: path
    default: gpustack
requirements:
  - gpustack on the host
"""

EXAMPLES = r"""
- name: Prove that every GPU computes
  gpustack.provision.verify:
    components: [driver, cuda]
    level: smoke
    require: [gpu]

- name: Verify by the single file
  gpustack.provision.verify:
    program: /usr/local/bin/gpustack
"""

RETURN = r"""
report:
  description: The document gpustack/report/v1.
  returned: when gpustack ran
  type: dict
summary:
  description: How many checks ended in each status.
  returned: when gpustack ran
  type: dict
  sample: {"pass": 29, "fail": 0, "skip": 6, "error": 0, "total": 35}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpustack.provision.plugins.module_utils.program import ask


def main():
    module = AnsibleModule(
        argument_spec={
            "components": {"type": "list", "elements": "str", "default": []},
            "level": {"type": "str", "choices": ["quick", "smoke", "full"], "default": "quick"},
            "require": {"type": "list", "elements": "str", "default": []},
            "lock": {"type": "path"},
            "program": {"type": "path", "default": "gpustack"},
        },
        supports_check_mode=True,
    )
    given = module.params
    words = ["verify", "--level", given["level"], "--format", "json", "--quiet"]
    for name in given["require"]:
        words += ["--require", name]
    if given["lock"]:
        words += ["--lock", given["lock"]]
    words += ["--"] + given["components"] if given["components"] else []
    code, report, err = ask(module, words, "report", ["checks", "summary"])
    summary = report["summary"]
    bad = [
        "%s: %s%s" % (one["id"], one["reason"], " (fix: %s)" % one["fix"] if one["fix"] else "")
        for one in report["checks"]
        if one["status"] in ("fail", "error")
    ]
    answer = {"changed": False, "report": report, "summary": summary}
    if bad:
        module.fail_json(msg="; ".join(bad), **answer)
    if code != 0:
        module.fail_json(msg="gpustack ended with %d: %s" % (code, err), **answer)
    if not summary.get("pass"):
        module.fail_json(msg="nothing is proven: every check was skipped", **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
