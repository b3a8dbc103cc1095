"""A service that carries the shell form out at the first boot, across reboots, and then removes itself."""

from __future__ import annotations

PLAN = "/usr/local/sbin/gpustack-plan"
RUNNER = "/usr/local/sbin/gpustack-first-boot"
SERVICE = "gpustack-first-boot.service"
UNIT = f"/etc/systemd/system/{SERVICE}"

UNIT_TEXT = f"""\
# Written by gpustack
[Unit]
Description=Installs the NVIDIA stack that gpustack planned
Wants=network-online.target
After=network-online.target
ConditionPathExists={PLAN}

[Service]
Type=oneshot
ExecStart=/bin/sh {RUNNER}
TimeoutStartSec=infinity

[Install]
WantedBy=multi-user.target
"""

RUNNER_TEXT = f"""\
#!/bin/sh
# Written by gpustack: carries the plan out, reboots where it says so, and continues after that
set -u
sh {PLAN}
code=$?
case $code in
    0)
        systemctl disable {SERVICE}
        rm -f -- {PLAN} {RUNNER} {UNIT}
        ;;
    5)
        systemctl reboot
        code=0
        ;;
esac
exit "$code"
"""
"""After a failure the service stays enabled: the next boot continues, and `systemctl restart` does at once."""
