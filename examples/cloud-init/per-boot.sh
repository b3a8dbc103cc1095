#!/bin/sh
# A hook of cloud-init for every boot: /var/lib/cloud/scripts/per-boot/50-gpustack.sh
#
# Verifies the stack, leaves the report and metrics, and fails if it is not proven; cloud-init then reports the boot
# as degraded (`cloud-init status --long`). Nothing else depends on it.
set -u
program=${GPUSTACK_PROGRAM:-gpustack}
folder=${GPUSTACK_REPORTS:-/var/lib/gpustack/boot-reports}
metrics=${GPUSTACK_METRICS:-/var/lib/prometheus/node-exporter}

mkdir -p "$folder" || exit 1
set -- verify --level "${GPUSTACK_LEVEL:-quick}" --require gpu --output "$folder/report.json"
if [ -d "$metrics" ]; then set -- "$@" --output "$metrics/gpustack.prom"; fi
# A driver that is still loading is no fault.
exec "$program" "$@" --retry-timeout "${GPUSTACK_RETRY:-120}"
