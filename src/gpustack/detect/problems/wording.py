"""How the lines of failures are marked, and the words in them."""

from __future__ import annotations

from gpustack.patterns import later

LEVEL = later(
    r"level=(?:error|fatal|panic)|\"level\":\s*\"(?:error|fatal)\"|\b[EF]\d{4} \d\d:|\[(?:error|fatal|critical)\]|"
    r"\b(?:ERROR|FATAL|CRITICAL|PANIC)\b|\(EE\)|<err>|\berror:|\bfatal:|\bpanic:|Error:|\bWARN (?:NET|Cuda|Call)",
)
"""How programs mark the lines of failures."""

GRAVE = later(
    r"(?i)\b(?:errors?|failed|failure|fails|fatal|cannot|can't|could not|couldn't|unable|denied|refused|not found|"
    r"no such|not permitted|"
    r"undefined symbol|mismatch\w*|unsupported|not supported|invalid|unknown|abort\w*|timed out|timeout|"
    r"out of memory|segfault|"
    r"not available|unavailable|no usable|too short|unhealthy|insufficient|incompatible|rejected|crash\w*|"
    r"no devices|missing|unresolvable|unauthorized|more space on|"
    r"does not exist|killed|dumped core|GLXBadContext|not appropriate|will not replace|"
    r"Conflicting values|filtered out|attempt to install|refusing|zero accessible|"
    r"blocked for more|soft lockup|nobody cared|Link Down|"
    r"WARNING: CPU|not present|should be|restricted|not a shared|only works in|clashes|fatal|incompatible with|"
    r"must be non-empty|undefined reference|required to|No CMAKE_CUDA_COMPILER could|"
    r"Consult /var/lib/dkms|exited \d+|giving up|No akmod packages|Kernel \d\S+ not installed|Ignoring nvidia\S*-kmod|"
    r"command not found|deadline exceeded|in use|busy|no space left|too old|requires)\b|\w+(?:_ERR(?:OR)?_|"
    r"Error[A-Z]|_STATUS_(?!SUCCESS)[A-Z])\w+"
)
"""Words of failures."""
