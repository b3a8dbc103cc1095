# Copyright: The authors of gpustack
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
name: facts
author: The authors of gpustack (@gpustack)
short_description: What gpustack knows of a release
version_added: "0.1.0"
description:
  - Returns the facts of releases, with their sources, as C(gpustack matrix show) of the controller prints them.
options:
  _terms:
    description: Releases, such as V(driver==580.95.05).
    required: true
  program:
    description: The program on the controller.
    type: str
    default: gpustack
requirements:
  - gpustack on the controller
"""

EXAMPLES = r"""
- name: Show what is known of a driver
  ansible.builtin.debug:
    msg: "{{ lookup('gpustack.provision.facts', 'driver==580.95.05') }}"
"""

RETURN = r"""
_raw:
  description: One element for each release.
  type: list
  elements: raw
"""

import json
import subprocess

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        return [self._facts(str(term)) for term in terms]

    def _facts(self, term):
        argv = [self.get_option("program"), "matrix", "show", "--format", "json", "--", term]
        try:
            done = subprocess.run(argv, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        except OSError as exc:
            raise AnsibleLookupError("%s cannot be started: %s" % (argv[0], exc)) from exc
        if done.returncode != 0:
            raise AnsibleLookupError(done.stderr.decode("utf-8", "replace").strip())
        return json.loads(done.stdout)
