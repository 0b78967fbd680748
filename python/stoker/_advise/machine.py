# SPDX-License-Identifier: Apache-2.0
"""Reads from /proc how much CPU time and storage this process's threads and its child processes used."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_WORKER, _READER = "stoker-", "stoker-read"  # prefixes of thread names: of all library threads, and of those that read


@dataclass
class Used:
    """The time that a group of threads used. threads: their number; for the child processes, the number of processes. cpu: seconds on a core. queued: seconds
    of waiting for a core."""

    threads: int = 0
    cpu: float = 0.0
    queued: float = 0.0

    def add(self, cpu: float, queued: float) -> None:
        self.threads += 1
        self.cpu += cpu
        self.queued += queued

    def since(self, then: Used) -> Used:
        return Used(self.threads, max(0.0, self.cpu - then.cpu), max(0.0, self.queued - then.queued))

    def plus(self, other: Used) -> Used:
        return Used(max(self.threads, other.threads), self.cpu + other.cpu, self.queued + other.queued)


@dataclass
class Usage:
    """The resources that this process and its children used: sums since their start, or the difference between two moments."""

    workers: Used  # the library's threads, without those that only read
    children: Used  # processes that this one started
    loop: Used  # the thread of the training loop
    others: Used  # the other threads of this process, and the library's threads that only read
    read_bytes: int  # bytes read from storage, without those from the page cache
    wall: float = 0.0
    machine: float = 0.0  # CPU seconds of all programs of the machine together; 0 if not known

    def since(self, then: Usage) -> Usage:
        """Returns the difference between this reading and `then`, an earlier one."""
        return Usage(
            self.workers.since(then.workers),
            self.children.since(then.children),
            self.loop.since(then.loop),
            self.others.since(then.others),
            max(0, self.read_bytes - then.read_bytes),
            self.wall - then.wall,
            max(0.0, self.machine - then.machine),
        )

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.workers.plus(other.workers),
            self.children.plus(other.children),
            self.loop.plus(other.loop),
            self.others.plus(other.others),
            self.read_bytes + other.read_bytes,
            self.wall + other.wall,
            self.machine + other.machine,
        )

    @property
    def cpu(self) -> float:
        return self.workers.cpu + self.children.cpu + self.loop.cpu + self.others.cpu


def _thread_times(task: Path) -> tuple[float, float]:
    """Returns the seconds that a thread spent on a core, and those in the queue for a core. task: the thread's folder in /proc."""
    try:
        on, queued = (task / "schedstat").read_text().split()[:2]
        if on != "0":
            return int(on) / 1e9, int(queued) / 1e9
    except (OSError, ValueError):
        pass
    try:  # the kernel has no schedstat, or does not count in it
        fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICK, 0.0
    except (OSError, IndexError):
        return 0.0, 0.0


def _descendants(pid: int) -> list[int]:
    found, wave = [], [pid]
    while wave:
        below: list[int] = []
        for parent in wave:
            for task in Path(f"/proc/{parent}/task").glob("*/children"):
                try:
                    below += map(int, task.read_text().split())
                except OSError:
                    continue
        found += below
        wave = below
    return found


def _storage_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def _machine_seconds() -> float:
    """Returns the CPU seconds that all programs have used since the machine started, plus the seconds for which other virtual machines had its cores (steal).
    Returns 0 if the system does not report them."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
        return (user + nice + system + irq + softirq + steal) / _TICK
    except (OSError, ValueError):
        return 0.0


def usage(now: float) -> Usage:
    """Returns what this process and its children have used since their start. now: seconds by time.perf_counter(), which become Usage.wall."""
    workers, loop, others, children = Used(), Used(), Used(), Used()
    own = threading.get_native_id()
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text()
        except OSError:
            continue
        if name.startswith(_READER):
            group = others
        else:
            group = loop if int(task.name) == own else workers if name.startswith(_WORKER) else others
        group.add(*_thread_times(task))
    read = _storage_bytes(os.getpid())
    for pid in _descendants(os.getpid()):
        cpu = queued = 0.0
        for task in Path(f"/proc/{pid}/task").glob("*"):
            on, waited = _thread_times(task)
            cpu, queued = cpu + on, queued + waited
        children.add(cpu, queued)
        read += _storage_bytes(pid)
    return Usage(workers, children, loop, others, read, now, _machine_seconds())
