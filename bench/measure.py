# SPDX-License-Identifier: Apache-2.0
"""Measures two loaders in interleaved slices: CPU time of this process and its workers, and medians of ratios with their spread.

Wall-clock rates on shared machines vary by a factor of two between runs; ratios of CPU time between neighbouring slices do not. A loader prepares
batches ahead of need, so a slice ends only when the loader is idle: then the slice contains exactly the loader's work for it.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
IDLE_STEP = 0.03  # in seconds; a few clock ticks of /proc
IDLE_STEPS = 3  # on a busy machine, a thread may get no core during a single step, so waiting needs several idle steps in a row


def children() -> list[int]:
    """Returns the ids of all running descendants of this process."""
    found, wave = [], [os.getpid()]
    while wave:
        below: list[int] = []
        for pid in wave:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    below += map(int, task.read_text().split())
                except OSError:
                    continue
        found += below
        wave = below
    return found


def cpu_seconds(workers: list[int] | None = None) -> float:
    """Returns the CPU seconds of this process and its children, including running ones. workers: ids of the running children; None: they are searched for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for pid in children() if workers is None else workers:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def wait_idle(limit: float = 60) -> float:
    """Waits until this process and its children have been idle for a moment, for at most `limit` seconds. Returns the time (perf_counter) of that moment's
    start."""
    workers = children()
    began, before, quiet = time.perf_counter(), cpu_seconds(workers), 0
    end = began + limit
    while quiet < IDLE_STEPS and began < end:
        time.sleep(IDLE_STEP)
        now = cpu_seconds(workers)
        # On a busy machine, a thread that is ready to run may get no core during the whole step; is_at_work detects such a thread.
        if now - before < 0.1 * IDLE_STEP and not is_at_work(workers):
            quiet += 1
            continue
        began, before, quiet = time.perf_counter(), now, 0
    return began


def is_at_work(workers: list[int]) -> bool:
    """Returns whether a thread of this process or its children, other than the calling thread, runs, is ready to run, or waits for a disk."""
    me = threading.get_native_id()
    for pid in (os.getpid(), *workers):
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            try:
                if int(stat.parent.name) != me and stat.read_text().rsplit(")", 1)[1].split()[0] in "RD":
                    return True
            except OSError:
                continue
    return False


@dataclass
class Slice:
    images: int
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.images / self.wall

    @property
    def cost(self) -> float:
        """Returns CPU seconds per 1000 images."""
        return 1000 * self.cpu / self.images


def measure(take: Callable[[int], int], images: int) -> Slice:
    """Takes images from an idle loader, and waits until the loader is idle again. Returns the measured slice."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    taken = take(images)
    return Slice(taken, wait_idle() - wall, cpu_seconds() - cpu)


@dataclass
class Comparison:
    """Slices of Stoker and of a peer, which were measured in turns."""

    peer: str
    ours: list[Slice]
    theirs: list[Slice]

    @property
    def ratios(self) -> list[float]:
        """Returns, for each pair of slices, the ratio of Stoker's images per CPU second to the peer's."""
        return [t.cost / o.cost for o, t in zip(self.ours, self.theirs, strict=True)]

    def summary(self) -> dict:
        def side(slices: list[Slice]) -> dict:
            return {
                "images_per_s": round(statistics.median(s.rate for s in slices)),
                "images_per_cpu_s": round(1000 / statistics.median(s.cost for s in slices)),
                "cpu_s_per_1000": round(statistics.median(s.cost for s in slices), 3),
            }

        ratios = self.ratios
        return {
            "peer": self.peer,
            "stoker": side(self.ours),
            "theirs": side(self.theirs),
            "ratio_per_cpu_s": round(statistics.median(ratios), 3),
            "spread": [round(min(ratios), 3), round(max(ratios), 3)],
            "slices": len(ratios),
            "images_per_slice": [self.ours[0].images, self.theirs[0].images],
        }


def compare(peer: str, ours: Callable[[int], int], theirs: Callable[[int], int], images: int, rounds: int) -> Comparison:
    """Measures Stoker and a peer in turns. Both must be warmed up and idle."""
    result = Comparison(peer, [], [])
    for turn in range(rounds):
        if turn % 2:
            result.ours.append(measure(ours, images))
            result.theirs.append(measure(theirs, images))
        else:
            result.theirs.append(measure(theirs, images))
            result.ours.append(measure(ours, images))
    return result


def peak_memory() -> int:
    """Returns the peak of this process's resident memory in bytes. getrusage would report the peak of the process that started this one, if that is larger."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:", 1)[1].split()[0]) * 1024


def resident_memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def machine() -> dict:
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?"
    )
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}


def describe(files: list[Path]) -> dict:
    """Describes the input files, so that readers of the figures know what was measured."""
    from PIL import Image

    sizes = [f.stat().st_size for f in files]
    some = files[:: max(1, len(files) // 500)]
    pixels = []
    for file in some:
        with Image.open(file) as image:
            pixels.append(image.width * image.height)
    return {"files": len(files), "mean_bytes": round(statistics.mean(sizes)), "mean_pixels": round(statistics.mean(pixels))}


def table(rows: list[list[str]]) -> str:
    """Formats a table whose columns are as wide as their widest cell. The first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))) for row in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def emit(result: dict) -> None:
    """Prints the result as one line of JSON, for the parent process."""
    print("RESULT " + json.dumps(result), flush=True)


def emitted(output: str) -> dict | None:
    """Returns the first result that a child process printed with emit(); None if its output has none."""
    return next((json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")), None)
