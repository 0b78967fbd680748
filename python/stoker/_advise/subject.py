# SPDX-License-Identifier: Apache-2.0
"""Subject, a description of the loader that advise measures: how far it works ahead, its threads and processes, and its counters."""

from __future__ import annotations

import sys
from typing import Any


class Subject:
    """Describes a loader of an unknown kind, such as an iterator. Base class of the descriptions of other kinds."""

    kind = "an iterator"
    ahead = 4  # maximum number of batches that the loader makes in advance; for an unknown loader a guess

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def workers(self) -> int:
        """Returns the number of threads or processes that make batches; 0 if it is not known."""
        return 0

    def counters(self) -> dict[str, float]:
        return {}

    def on_gpu(self) -> bool:
        """Returns whether the loader uses a GPU."""
        return False

    def __str__(self) -> str:
        return f"{self.kind} ({type(self.loader).__name__})"


class StokerSubject(Subject):
    """A Loader, a Pipeline or an iterator of stoker.plugin."""

    kind = "Stoker"

    def __init__(self, loader: Any, holder: Any) -> None:
        super().__init__(loader)
        self._holder = holder

    def _pipelines(self) -> list[Any]:
        many = getattr(self._holder, "_pipes", None)
        return list(many) if isinstance(many, (list, tuple)) else [getattr(self._holder, "pipeline", self._holder)]

    @property
    def ahead(self) -> int:  # type: ignore[override]
        return 2 + max(int(p.prefetch_queue_depth) for p in self._pipelines())

    def workers(self) -> int:
        return max(int(p.num_threads) for p in self._pipelines())

    def on_gpu(self) -> bool:
        return any(p.device_id is not None for p in self._pipelines())

    def counters(self) -> dict[str, float]:
        total: dict[str, float] = {}
        for pipe in self._pipelines():
            for name, value in pipe.counters().items():
                total[name] = total.get(name, 0.0) + value
            spans = [(begin, end) for name, *_, begin, end in pipe._running().spans() if name == "gpu"]
            if spans:  # the pipeline was made with trace=
                total["gpu_ns"] = total.get("gpu_ns", 0.0) + covered(spans)
        return total

    def __str__(self) -> str:
        return f"{type(self._holder).__name__}, {self.workers()} threads"


class DataLoaderSubject(Subject):
    """A DataLoader of torch."""

    kind = "DataLoader"

    @property
    def ahead(self) -> int:  # type: ignore[override]
        return int(self.workers() * (getattr(self.loader, "prefetch_factor", None) or 2)) if self.workers() else 0

    def workers(self) -> int:
        return int(getattr(self.loader, "num_workers", 0))

    def __str__(self) -> str:
        pinned = ", pin_memory" if getattr(self.loader, "pin_memory", False) else ""
        return f"{type(self.loader).__name__}, {self.workers()} worker processes{pinned}"


def covered(spans: list[tuple[int, int]]) -> float:
    """Returns for how many nanoseconds at least one of the spans was open. spans: (begin, end) in nanoseconds, in any order; they may overlap."""
    total, until = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return float(total)


def _ours(value: Any) -> bool:
    """Returns whether the value is a Loader or a Pipeline of Stoker. Does not import their modules."""
    loaded = sys.modules.get("stoker.loader.loader"), sys.modules.get("stoker.pipeline")
    kinds = tuple(k for k in (getattr(loaded[0], "Loader", None), getattr(loaded[1], "Pipeline", None)) if k is not None)
    return bool(kinds) and isinstance(value, kinds)


def recognise(loader: Any) -> Subject:
    """Returns the description of a loader: a StokerSubject, a DataLoaderSubject, or a Subject if its kind is not known."""
    for holder in (loader, getattr(loader, "loader", None)):
        if _ours(holder):
            return StokerSubject(loader, holder)
    pipes = getattr(loader, "_pipes", None)
    if isinstance(pipes, (list, tuple)) and pipes and all(_ours(p) for p in pipes):
        return StokerSubject(loader, loader)
    if hasattr(loader, "num_workers") and hasattr(loader, "dataset"):
        return DataLoaderSubject(loader)
    return Subject(loader)
