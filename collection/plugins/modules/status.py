#!/usr/bin/python
# Copyright: The authors of gpustack
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
module: status
short_description: Compare a host with what gpustack installed on it
version_added: "0.1.0"
description:
  - Runs C(gpustack status) on the host and returns the differences from its lock.
author:
  - The authors of gpustack (@gpustack)
attributes:
  check_mode:
    description: The module changes nothing, so it does the same in check mode.
    support: full
options:
  lock:
    description: The lock file on the host; that of the last installation by default.
    type: path
  fail_on_drift:
    description: Whether a difference is a failure.
    type: bool
    default: false
  program:
    description: The program on the host.
    type: path
    default: gpustack
requirements:
  - gpustack on the host
"""

EXAMPLES = r"""
- name: Find hosts that drifted
  gpustack.provision.status:
    fail_on_drift: true
"""

RETURN = r"""
is_drifted:
  description: Whether the host differs from its lock.
  returned: success
  type: bool
drift:
  description: The differences, each with its kind, message and cure.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpustack.provision.plugins.module_utils.program import ask

DRIFTED = 6


def main():
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "path"},
            "fail_on_drift": {"type": "bool", "default": False},
            "program": {"type": "path", "default": "gpustack"},
        },
        supports_check_mode=True,
    )
    words = ["status", "--format", "json"]
    if module.params["lock"]:
        words += ["--lock", module.params["lock"]]
    code, document, err = ask(module, words, "status", ["drift"])
    drift = document["drift"]
    if code not in (0, DRIFTED):
        module.fail_json(msg="gpustack ended with %d: %s" % (code, err), rc=code)
    answer = {"changed": False, "is_drifted": code == DRIFTED, "drift": drift}
    if code == DRIFTED and module.params["fail_on_drift"]:
        module.fail_json(msg="; ".join(one["message"] for one in drift), **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
