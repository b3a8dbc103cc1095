# Copyright: The authors of gpustack
# Apache License 2.0 (see LICENSE)

from __future__ import annotations

DOCUMENTATION = r"""
name: sum
type: aggregate
author: The authors of gpustack (@gpustack)
short_description: The sum of all verifications
version_added: "0.1.0"
description:
  - Prints, at the end of a playbook, how many hosts passed the tasks of P(gpustack.provision.verify#module), and which did not.
  - A host that could not be reached, or on which no such task ran, has not passed.
requirements:
  - enabled in the configuration, by C(callbacks_enabled = gpustack.provision.sum)
"""

from ansible.plugins.callback import CallbackBase

VERIFY = ("gpustack.provision.verify",)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpustack.provision.sum"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.reasons = {}

    def v2_runner_on_ok(self, result):
        if self._is_verification(result):
            self.reasons.setdefault(result._host.get_name(), "")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        if self._is_verification(result):
            self.reasons[result._host.get_name()] = str(result._result.get("msg", "failed"))

    def v2_runner_on_unreachable(self, result):
        self.reasons[result._host.get_name()] = "unreachable"

    def v2_playbook_on_stats(self, stats):
        if not self.reasons:
            return
        for host in stats.processed:
            self.reasons.setdefault(host, "not verified")
        bad = {host: reason for host, reason in self.reasons.items() if reason}
        passed = len(self.reasons) - len(bad)
        self._display.banner("GPUSTACK")
        for host in sorted(bad):
            self._display.display("%s: %s" % (host, bad[host]))
        self._display.display("%d hosts: %d passed, %d did not" % (len(self.reasons), passed, len(bad)))

    @staticmethod
    def _is_verification(result):
        return result._task.action in VERIFY
