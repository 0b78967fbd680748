# SPDX-License-Identifier: Apache-2.0
"""Finds the stage that limits a loader: the loop's own thread, the CPU cores, storage, the copy to the GPU, or the GPU."""

from __future__ import annotations

import os
from dataclasses import dataclass

from stoker._advise.machine import Usage, Used
from stoker._advise.subject import Subject

_BUSY = 0.8  # a stage that is busy for at least this share of the time counts as the bottleneck
_CROWDED = 0.9  # if all programs together used at least this share of the machine's CPU time, threads are assumed to have waited for a core
_WAITS = 0.02  # a wait for data that is shorter than this share of a step counts as no wait


@dataclass(frozen=True)
class Bound:
    """The stage that limits a loader, and a text about it for the report. stage: "none" (the loop hardly waits), "loop" (the loader works in the loop's own
    thread), "cores" (busy with the loader or with other programs), "storage", "copy" (to the GPU, or from a DataLoader's workers to the loop), "gpu" or "waits"
    (none of these was busy)."""

    stage: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Sums and means over all live blocks. In a live block the loop gets new batches from the loader; in other blocks it gets cached ones."""

    batches: int
    wait_share: float  # time that the loop waited for data, as a share of the step
    waited: float  # seconds that the loop's thread waited for batches
    own_cpu: float  # seconds that the loop's thread computed during these waits
    step: float  # mean seconds of a step that does not wait: of the steps on cached batches or, without these, of live steps minus their waits
    cores: float
    usage: Usage
    counters: dict[str, float]


def find(subject: Subject, f: Facts) -> Bound:
    """Returns the stage that limits the loader, with a text for the report."""
    if f.wait_share < _WAITS:
        return Bound("none", "nothing: batches lie ready when the loop asks")
    if f.own_cpu >= 0.7 * f.waited:
        return _own_thread(subject)
    group = f.usage.workers if subject.kind == "Stoker" else f.usage.children
    crew = subject.workers() or group.threads
    wall = max(f.usage.wall, 1e-9)
    busy = (group.cpu + group.queued) / (wall * crew) if crew else 0.0
    full = f.usage.cpu / (wall * f.cores)
    if busy >= _BUSY or full >= 0.9:
        return _cores(subject, f, crew, busy, full, group)
    found = _gpu(subject, f, wall) or _crowd(f, wall, busy, crew)
    return found if found is not None else _storage(subject, f, wall, busy, crew)


def _own_thread(subject: Subject) -> Bound:
    if subject.kind == "DataLoader" and subject.workers():
        return Bound("copy", "the copy: the loop's thread is busy taking batches over from the workers (unpickling, pinning, moving)")
    if subject.kind == "Stoker":
        return Bound(
            "loop",
            "the loop's own thread, on which the loader ends its batches: collate_fn, batch_transforms and the Python of an IterableDataset run there; make "
            "them cheaper",
        )
    cure = ": num_workers=0 makes batches between the steps" if subject.kind == "DataLoader" else ""
    return Bound(
        "loop", f"the loop's own thread, in which the loader works{cure}; one that works ahead, in threads or processes, would help"
    )


def _cores(subject: Subject, f: Facts, crew: int, busy: float, full: float, group: Used) -> Bound:
    needed = group.cpu / max(1, f.batches) / max(f.step, 1e-9)
    what = "threads" if subject.kind == "Stoker" else "processes"
    text = f"cores: the loader's {crew} {what} were busy {min(busy, 1):.0%} of the time" if busy >= _BUSY else "cores"
    queued = group.queued / max(1e-9, group.cpu + group.queued)
    if queued >= 0.15:
        text += f" ({queued:.0%} of it in the queue for a core: more wants to run than there are)"
    text += f", the {f.cores:g} usable cores {min(full, 1):.0%}"
    if needed > 0:
        text += f"; without a wait it would need {needed:.1f} cores for itself"
    if busy >= _BUSY and full < 0.7 and crew < f.cores:
        name = "num_threads" if subject.kind == "Stoker" else "num_workers"
        text += f"; cores are free: raise {name}"
    return Bound("cores", text)


def _gpu(subject: Subject, f: Facts, wall: float) -> Bound | None:
    """Returns the stage "copy" or "gpu" if the loader's copies or kernels ran for at least _BUSY of the time. Returns "gpu" also if the loader uses the GPU
    and its reads did not block, because then only the GPU is left as the cause. Returns None otherwise."""
    copy, kernels = f.counters.get("copy_ns", 0.0) / 1e9, f.counters.get("gpu_ns", 0.0) / 1e9
    if copy >= _BUSY * wall and copy >= kernels:
        return Bound("copy", f"the copy to the GPU, under way {copy / wall:.0%} of the time")
    if kernels >= _BUSY * wall:
        return Bound("gpu", f"the GPU: the loader's kernels ran {kernels / wall:.0%} of the time, next to those of the step")
    if subject.on_gpu() and not _reads_blocked(f):
        return Bound("gpu", "the GPU, which the loader shares with the step: its threads had time left, and its files lay in memory")
    return None


def _crowd(f: Facts, wall: float, busy: float, crew: int) -> Bound | None:
    """Returns the stage "cores" if all programs together kept the machine's cores busy and reads did not block; else None. Not every Linux reports how long
    a thread has waited for a core; where it is not reported, only this function finds out that other programs took the cores."""
    cores = os.cpu_count() or 1
    if f.usage.machine < _CROWDED * wall * cores or _reads_blocked(f):
        return None
    others = max(0.0, f.usage.machine - f.usage.cpu) / wall
    text = f"cores: other programs of this machine used {others:.1f} of its {cores} cores meanwhile"
    return Bound("cores", f"{text} (the loader's {crew} workers computed {busy:.0%} of the time); measure again when it is idle")


def _reads_blocked(f: Facts) -> bool:
    started = f.counters.get("reads_started", 0.0)
    return started > 0 and f.counters.get("reads_submitted", 0.0) > 0.5 * started


def _storage(subject: Subject, f: Facts, wall: float, busy: float, crew: int) -> Bound:
    idle = f"its {crew} workers computed only {busy:.0%} of the time" if crew else "hardly any core was used meanwhile"
    data = f.counters.get("bytes_read", 0.0) if _reads_blocked(f) else float(f.usage.read_bytes)
    if data > 0:
        needed = data / max(1, f.batches) / max(f.step, 1e-9) / 1e6
        return Bound("storage", f"storage: {data / wall / 1e6:.0f} MB/s came; without a wait it would be {needed:.0f} MB/s ({idle})")
    return Bound("waits", f"something that is neither cores nor storage: {idle}. A network, a lock, a limit on requests, a sleep?")
