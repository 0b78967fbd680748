# SPDX-License-Identifier: Apache-2.0
"""Logs a line after an epoch in which the consumer waited for batches: the share of time, and the probable cause, from the pipeline's counters."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker import _core
from stoker._where import log
from stoker.pipeline import Pipeline

LEAST = 0.05  # a line is logged only if the consumer waited for more than this share of the epoch
SHORT = 1.0  # seconds; no line is logged for an epoch that is shorter than this
STEP = 1e-3  # seconds; a loop that works less than this on a batch only measures the Loader's speed, so no line is logged for it
_BUSY = 0.8  # the cores, or the source's Python, count as the cause if they were busy for at least this share of the time


@dataclass(frozen=True)
class Spent:
    """What the work for an epoch took: times in seconds, and numbers of bytes and batches. See `between`."""

    elapsed: float
    wait: float  # time that the consumer waited for batches
    busy: float  # time that all threads together worked
    source: float  # time that the callback thread spent in the user's code
    bytes_read: float
    batches: float  # number of batches that were delivered
    threads: int
    gpu: bool = False
    store: Mapping[str, float] = field(default_factory=dict)  # the object store's counters for the epoch; its latencies are in milliseconds

    @classmethod
    def between(cls, begin: Mapping[str, float], end: Mapping[str, float], threads: int, gpu: bool) -> Spent:
        """Returns the differences of a pipeline's counters between the begin and the end of an epoch."""
        spent = {name: end[name] - begin[name] for name in ("clock", "wait_ns", "busy_ns", "source_ns", "bytes_read", "batches_delivered")}
        wait, busy, source = (spent[name] / 1e9 for name in ("wait_ns", "busy_ns", "source_ns"))
        store = {
            name: end[name] - begin.get(name, 0.0) for name in end if name in ("storage_requests", "storage_retries", "storage_slowdowns")
        }
        if store.get("storage_requests"):
            store |= {name: end[name] for name in ("storage_latency_ms", "storage_latency_ms_p95")}
        return cls(spent["clock"], wait, busy, source, spent["bytes_read"], spent["batches_delivered"], threads, gpu, store)


def _cores(threads: int, machine: Mapping[str, Any]) -> str:
    """Returns a text about the cores that the pipeline may use, as "2 usable (cgroup quota) of 64"."""
    online, allowed, quota, ranks = (machine[k] for k in ("cpus_online", "cpus_allowed", "cpu_quota", "local_ranks"))
    if threads < machine["threads"]:
        return f"num_threads={threads}, {machine['threads']} usable"
    if ranks > 1:
        return f"{threads} for each of {ranks} ranks on this machine of {online}"
    why = "cgroup quota" if 0 < quota < allowed else "affinity mask" if allowed < online else ""
    return f"{threads} usable ({why}) of {online}" if why else f"all {threads} of this machine"


def _store(spent: Spent) -> str:
    """Returns a text on the object store, as ", 812 objects/s; an answer took 160 ms, one in twenty over 540 ms; it asked for fewer requests 3 times (503)"."""
    s = spent.store
    text = f", {s['storage_requests'] / spent.elapsed:.0f} objects/s"
    text += f"; an answer took {s['storage_latency_ms']:.0f} ms, one in twenty over {s['storage_latency_ms_p95']:.0f} ms"
    if s["storage_slowdowns"]:
        text += f"; it asked for fewer requests {s['storage_slowdowns']:.0f} times (503)"
    return text + (f"; {s['storage_retries']:.0f} tries were repeated" if s["storage_retries"] else "")


def line(spent: Spent, machine: Mapping[str, Any]) -> str | None:
    """Returns the line for an epoch, as "waited 18%; bound by cores: 2 usable (cgroup quota) of 64; with 6 the wait would be 0%"; None if nothing is to be
    logged."""
    share = spent.wait / spent.elapsed if spent.elapsed > 0 else 0.0
    if share <= LEAST or spent.elapsed < SHORT or spent.elapsed - spent.wait < STEP * spent.batches:
        return None
    busy = spent.busy / (spent.threads * spent.elapsed)
    text = f"waited {share:.0%}; bound by "
    if busy >= _BUSY:
        text += f"cores: {_cores(spent.threads, machine)}"
        # Names the number of threads that would do all the work while the consumer computes. If the consumer waits nearly always, there is no sensible
        # number.
        if share < _BUSY:
            text += f"; with {max(math.ceil(spent.busy / (spent.elapsed - spent.wait)), spent.threads + 1)} the wait would be 0%"
        return text
    if spent.source >= _BUSY * spent.elapsed:
        return f"{text}the source's Python, which ran {spent.source / spent.elapsed:.0%} of the time; the cores were {busy:.0%} busy"
    if not spent.bytes_read and not spent.store.get("storage_requests"):  # the library read nothing; a Dataset reads in its Python code
        ran = f"the cores were {busy:.0%} busy, and the source's Python ran {spent.source / spent.elapsed:.0%} of the time"
        return f"{text}the GPU: {ran}" if spent.gpu else f"waited {share:.0%}: {ran}; a larger prefetch= lets batches be made further ahead"
    rate = f"{spent.bytes_read / spent.elapsed / 1e6:.1f} MB/s came"
    if spent.store.get("storage_requests"):
        return f"{text}the object store: {rate}{_store(spent)}; the cores were {busy:.0%} busy"
    where = "reading or the GPU" if spent.gpu else "reading"
    return f"{text}{where}: {rate}; the cores were {busy:.0%} busy"


class WaitMeter:
    """Measures an epoch from its second batch on, and logs how long and for what the loop waited. who: the line's beginning, with the rank."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.begun: dict[str, float] | None = None

    @staticmethod
    def _now(pipe: Pipeline) -> dict[str, float]:
        return {**pipe.counters(), "clock": time.monotonic()}

    def first_step_done(self, pipe: Pipeline) -> None:
        """Starts the measurement. Call after the first batch was used: the wait for that batch, and its use, are not measured."""
        self.begun = self._now(pipe)

    def end(self, pipe: Pipeline, epoch: int) -> None:
        """Ends the measurement at the end of an epoch. Logs what the loop waited for, if it waited long enough (see LEAST, SHORT and STEP)."""
        if self.begun is not None:
            text = line(Spent.between(self.begun, self._now(pipe), pipe.num_threads, pipe.device_id is not None), _core.machine())
            if text is not None:
                log(f"{self.who}epoch {epoch}: {text}")
        self.begun = None
