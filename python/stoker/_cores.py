# SPDX-License-Identifier: Apache-2.0
"""Finds the number of cores that this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores() -> float:
    """Returns the number of cores that the process may use, according to its affinity and the quota of its control group, which may be a fraction of a core.
    Several ranks on a host share this number."""
    usable = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        if quota != "max":
            usable = min(usable, int(quota) / int(period))
    except (OSError, ValueError):
        pass
    return usable
