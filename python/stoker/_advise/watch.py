# SPDX-License-Identifier: Apache-2.0
"""Watched wraps a loader and measures the training loop that iterates over it. The measurement is called a trial; a Plan lists its blocks of steps."""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoker._advise import clock, machine, report
from stoker._advise.cache import Cache
from stoker._advise.plan import Block, Plan, Step
from stoker._advise.subject import recognise
from stoker._cores import usable_cores
from stoker.errors import ArgumentError, MissingFileError, StateError

_END: Any = object()  # returned in place of a batch at the end of an epoch


class Watched:
    """Wraps a loader and measures the loop that iterates over it. Yields as many batches as the loader, and has the loader's other methods and attributes.
    Only one thread at a time may use it."""

    def __init__(self, loader: Any, plan: Plan, *, png: Any = None, json: Any = None, quiet: bool = False) -> None:
        for name, path in (("png", png), ("json", json)):
            if path is not None and not isinstance(path, (str, os.PathLike)):
                raise ArgumentError(f"advise: {name} is the path of a file to write, not {path!r:.80}")
            folder = None if path is None else Path(path).absolute().parent
            if folder and not folder.is_dir():
                raise MissingFileError(f"advise: {name}={str(path)!r}: there is no folder {folder}")
        self._loader, self._png, self._json, self._quiet = loader, png, json, quiet
        self._subject = recognise(loader)
        self._plan = plan
        self._blocks = plan.blocks()
        self._at = 0  # index of the current block
        self._clock: clock.HostClock | None = None
        self._cache = Cache(plan.cached)
        self._then: tuple[machine.Usage, dict[str, float]] | None = None
        self._epoch_starts: list[float] = []
        self._dropped = 0  # number of this epoch's batches that were taken from the loader and dropped
        self._steps_so_far = [0]  # number of steps so far; a list, because _report_unfinished shares it
        self._unfinished = weakref.finalize(self, _report_unfinished, self._steps_so_far, plan.length()) if not quiet else None

    def __iter__(self) -> Iterator[Any]:
        return self._epoch(iter(self._loader))

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["_loader"], name)

    @property
    def done(self) -> bool:
        """Returns whether the trial is over."""
        return self._at == len(self._blocks)

    # ---- the loop ----

    def _epoch(self, source: Iterator[Any]) -> Iterator[Any]:
        """Yields as many batches as the loader's epoch has. Cached blocks take them from the cache. If the loader ends early because _finish dropped some of
        its batches, the rest also come from the cache."""
        most, given, self._dropped = self._length(), 0, 0
        for batch in self._trial(source, most):
            given += 1
            yield batch
        while given != most:
            batch = next(source, _END)
            if batch is _END and (most < 0 or self._dropped == 0):
                break
            given += 1
            yield self._cache.next() if batch is _END else batch
        if self.done:
            self._cache.clear()

    def _trial(self, source: Iterator[Any], most: int) -> Iterator[Any]:
        """Yields batches and measures the loop's steps until the trial or the epoch ends."""
        given, open_step = 0, None
        while True:
            asked = self._mark()
            if open_step is not None and self._add(open_step, asked, source):
                asked = self._mark()  # the time to begin or end a block does not belong to a step
            if given == most or self.done:
                return
            host, cpu = time.perf_counter(), time.thread_time()
            batch = self._take(source)
            if batch is _END:
                return
            waited, own = time.perf_counter() - host, time.thread_time() - cpu
            if given == 0:
                self._epoch_starts.append(waited)
            got = self._mark()
            open_step = Step(asked, got, None, waited, own) if given else None
            given += 1
            yield batch

    def _length(self) -> int:
        try:
            return len(self._loader)
        except (TypeError, AttributeError):
            return -1

    def _mark(self) -> Any:
        if self._clock is None:
            self._clock = clock.pick()
        return self._clock.mark()

    def _take(self, source: Iterator[Any]) -> Any:
        if self._blocks[self._at].kind == "cached":
            return self._cache.next()
        batch = next(source, _END)
        if batch is not _END:
            self._cache.offer(batch)
        return batch

    # ---- blocks ----

    def _add(self, step: Step, end: Any, source: Iterator[Any]) -> bool:
        """Ends a step at `end`. Returns True if this call also began or ended a block: the time for that must not count for the next step."""
        step.end = end
        self._steps_so_far[0] += 1
        block = self._blocks[self._at]
        if self._then is None and block.begun:
            self._then = self._measure()
            return True  # this step was the last one before those that are measured
        if not block.add(step):
            return False
        self._finish(block, source)
        return True

    def _measure(self) -> tuple[machine.Usage, dict[str, float]]:
        return machine.usage(time.perf_counter()), self._subject.counters()

    def _finish(self, block: Block, source: Iterator[Any]) -> None:
        """Ends a block: computes its times, records what the machine did during it, and prepares the next block."""
        assert self._clock is not None and self._then is not None
        now, counters = self._measure()
        used, counted = self._then
        block.usage = now.since(used), {k: max(0.0, v - counted.get(k, 0.0)) for k, v in counters.items()}
        self._clock.resolve(block.taken)
        block.over, self._then = True, None
        self._at += 1
        self._follow_the_gpu()
        if self.done:
            self._print_report()
        elif block.kind == "cached":
            # During a cached block the loader's queues filled up. Drop these batches, since they would hide a slow loader.
            for _ in range(self._subject.ahead):
                self._dropped += next(source, _END) is not _END

    def _follow_the_gpu(self) -> None:
        """Changes to the GPU's clock if the loop began to use the GPU during the trial. The trial then begins again."""
        picked = clock.pick()
        if self._clock is not None and picked.device != self._clock.device:
            self._clock = picked
            self._blocks, self._at = self._plan.blocks(), 0

    # ---- findings ----

    def report(self) -> report.Report:
        """Returns the findings of the blocks that have ended. Raises StateError if no block has ended."""
        over = [b for b in self._blocks if b.over]
        if not over:
            seen = sum(len(b.taken) for b in self._blocks)
            first = self._blocks[0]
            needed = first.settle + (self._then is None) + first.wanted - len(first.taken)
            raise StateError(
                f"advise: {seen} steps were measured; the first block ends after {needed} more: run longer, or give fewer steps and warmup"
            )
        assert self._clock is not None
        return report.make(self._subject, self._clock.device, over, self._epoch_starts, usable_cores())

    def _print_report(self) -> None:
        if self._unfinished:
            self._unfinished.detach()
        if _rank() != 0:
            return
        found = self.report()
        if not self._quiet:
            print(found, file=sys.stderr, flush=True)
        for path, save in ((self._json, found.save_json), (self._png, found.save_png)):
            try:
                if path is not None:
                    save(path)
            except OSError as e:  # a file that cannot be written must not end the training
                print(f"advise: {path} was not written: {e.strerror}", file=sys.stderr, flush=True)

    def __repr__(self) -> str:
        return f"advise({self._loader!r}, block {min(self._at + 1, len(self._blocks))} of {len(self._blocks)})"


def _report_unfinished(seen: list[int], needed: int) -> None:
    """Prints on rank 0 that there is no report, because the wrapper was freed or the process ended before the trial did. Prints nothing if the loop made no
    step."""
    if seen[0] and _rank() == 0:
        why = f"the loop ended after {seen[0]} of the trial's {needed} steps"
        print(f"advise: no report: {why}; let it run longer, or give fewer steps, rounds and warmup", file=sys.stderr, flush=True)


def _rank() -> int:
    from stoker._ranks import process_group

    group = process_group()
    return int(group.get_rank()) if group else int(os.environ.get("RANK", "0"))
