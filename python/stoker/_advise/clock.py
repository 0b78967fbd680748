# SPDX-License-Identifier: Apache-2.0
"""Clocks that mark moments: the host's, or the GPU's on the stream that the loop uses."""

from __future__ import annotations

import sys
import time
from typing import Any

from stoker._advise.plan import Step


class HostClock:
    """The clock of the host, whose marks are seconds."""

    device = "cpu"

    def mark(self) -> Any:
        return time.perf_counter()

    def resolve(self, steps: list[Step]) -> None:
        """Replaces the marks in these steps by seconds. Here the marks are seconds already, so nothing has to be done."""


class CudaClock(HostClock):
    """A clock whose marks are CUDA events on the current stream. The GPU reaches an event after all work queued before it. Recording an event does not wait."""

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self.device = f"cuda:{torch.cuda.current_device()}"

    def mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def resolve(self, steps: list[Step]) -> None:
        """Replaces the marks in these steps by seconds since the first step began. Waits for the GPU, which must have reached the events before they can be
        read."""
        self._cuda.synchronize()
        now, last = 0.0, None
        for step in steps:
            if step.asked is not last and last is not None:
                now += last.elapsed_time(step.asked) / 1e3
            asked, got, last = step.asked, step.got, step.end
            step.asked = now
            step.got = now + asked.elapsed_time(got) / 1e3
            step.end = now = step.got + got.elapsed_time(last) / 1e3


def pick() -> HostClock:
    """Returns the GPU's clock if this process already uses a GPU, else the host's. Does not import or initialise torch."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return CudaClock(torch)
    return HostClock()
