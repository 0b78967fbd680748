# SPDX-License-Identifier: Apache-2.0
"""The findings of a trial as figures, as a table and as JSON, with the conclusion."""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import dataclass
from typing import Any

from stoker import _files
from stoker._advise.bound import Bound, Facts, find
from stoker._advise.plan import Block, Step
from stoker._advise.subject import Subject
from stoker._advise.timeline import draw

_WORTH = 0.02  # smaller gains in speed, and smaller shares of a step spent waiting, are not worth acting on
_NOTICED = 0.05  # a wait for data of at least this share of a step is mentioned even if a faster loader would not help


def quantile(values: list[float], share: float) -> float:
    """Returns the element at `share` (0 to 1) of the sorted order: 0 gives the smallest, 1 the largest. values: at least one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Times:
    """Statistics of durations in seconds."""

    median: float
    p99: float
    mean: float

    @classmethod
    def of(cls, values: list[float]) -> Times:
        return cls(statistics.median(values), quantile(values, 0.99), statistics.fmean(values))

    def as_dict(self) -> dict[str, float]:
        return {"median_s": self.median, "p99_s": self.p99, "mean_s": self.mean}


@dataclass
class Report:
    """The findings of a trial. print() shows them as a table; the attributes are its figures."""

    loader: str
    device: str
    blocks: list[Block]
    step: Times  # durations of live steps
    wait: Times  # waits for data in live steps
    cached: Times | None  # durations of steps on cached batches; None: no such steps were made
    gains: list[float]  # for each round: time of a live step divided by the time of a cached step
    own_cpu: float  # share of the cached steps' time for which the loop's thread used the CPU
    bound: Bound
    epoch_starts: list[float]  # seconds until an epoch's first batch

    # ---- figures ----

    @property
    def wait_share(self) -> float:
        return self.wait.mean / self.step.mean if self.step.mean > 0 else 0.0

    @property
    def gain(self) -> float | None:
        """Returns how many times as fast the loop would be if data cost no time; None if no cached steps were run."""
        return statistics.median(self.gains) if self.gains else None

    def steps(self, kind: str) -> list[Step]:
        return [s for b in self.blocks if b.kind == kind for s in b.taken]

    @property
    def helps(self) -> bool:
        """Returns whether a faster loader would make the loop faster."""
        if self.gain is None:
            return self.wait_share >= _WORTH
        return self.gain - 1 >= _WORTH and min(self.gains) > 1

    # ---- conclusion and table ----

    @property
    def verdict(self) -> str:
        """Returns the conclusion as text: whether a faster loader would help, and by how much."""
        if self.gain is None:
            most = 1 / max(1e-9, 1 - self.wait_share)
            if not self.helps:
                return f"A faster loader would hardly help: the loop waits for data {self.wait_share:.1%} of the time."
            return f"A perfect loader makes the loop at most {most:.2f} times as fast. (No cached steps were run: they would show whether it is less.)"
        spread = f"{min(self.gains):.2f} to {max(self.gains):.2f}" if len(self.gains) > 1 else "one round"
        if not self.helps:
            text = f"A faster loader would not help: with data that costs nothing the loop is {self.gain:.2f} times as fast ({spread})."
            if self.wait_share >= _NOTICED:
                text += f" It does wait for data {self.wait_share:.0%} of the time, but makes up for it elsewhere."
            return text + " The time is spent in the step itself" + self._where()
        text = f"A perfect loader makes the loop {self.gain:.2f} times as fast ({spread})."
        if self.wait_share < _WORTH:
            text += " It hardly waits: the loader takes cores, memory or GPU time from the step. Fewer loader threads, or cheaper transforms, may help."
        return text

    def _where(self) -> str:
        if self.device != "cpu" and self.own_cpu >= 0.9:
            return ", and there in the loop's own thread, which launches too slowly for the GPU: torch.compile or CUDA graphs would help."
        return "."

    def __str__(self) -> str:
        live, rounds = self.steps("live"), len([b for b in self.blocks if b.kind == "live"])
        rows = [("", "median", "p99", ""), ("step", *_ms(self.step), f"{len(live)} steps in {rounds} blocks")]
        rows.append(("  waiting for data", *_ms(self.wait), f"{self.wait_share:.1%} of the step"))
        if self.cached is not None:
            rows.append(("step on cached data", *_ms(self.cached), "where no data has to be made"))
        if self.epoch_starts:
            longest = max(self.epoch_starts)
            rows.append(
                (
                    "first batch of an epoch",
                    f"{1e3 * statistics.median(self.epoch_starts):.1f} ms",
                    f"{1e3 * longest:.1f} ms",
                    "not in the above",
                )
            )
        widths = [max(len(r[i]) for r in rows) for i in range(3)]
        lines = [f"advise: {self.loader}; times of {'the GPU' if self.device != 'cpu' else 'the host'}"]
        lines += [f"  {r[0]:<{widths[0]}}  {r[1]:>{widths[1]}}  {r[2]:>{widths[2]}}  {r[3]}".rstrip() for r in rows]
        lines += [f"  bound by {self.bound.text}", f"  {self.verdict}"]
        return "\n".join(lines)

    # ---- files ----

    def as_dict(self) -> dict[str, Any]:
        """Returns the findings as data for JSON. Times are in seconds."""
        return {
            "loader": self.loader,
            "device": self.device,
            "step": self.step.as_dict(),
            "wait": {**self.wait.as_dict(), "share": self.wait_share},
            "cached_step": None if self.cached is None else self.cached.as_dict(),
            "gain": None if self.gain is None else {"median": self.gain, "rounds": self.gains},
            "helps": self.helps,
            "bound": {"stage": self.bound.stage, "text": self.bound.text},
            "verdict": self.verdict,
            "epoch_starts_s": self.epoch_starts,
            "blocks": [{"kind": b.kind, "steps": [[s.wait, s.whole] for s in b.taken]} for b in self.blocks],
        }

    def save_json(self, path: str | os.PathLike[str]) -> None:
        _files.write(path, json.dumps(self.as_dict(), indent=1) + "\n")

    def save_png(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline as a PNG file."""
        gain = "" if self.gain is None else f"   without a loader {self.gain:.2f} times as fast"
        facts = f"waits {self.wait_share:.1%} of the step   bound by: {self.bound.stage}{gain}"
        first = {kind: next((b.taken for b in self.blocks if b.kind == kind), []) for kind in ("live", "cached")}
        lanes = {kind: steps for kind, steps in first.items() if steps}
        _files.write(path, draw(self.loader, facts, lanes, self.steps("live")))


def _ms(times: Times) -> tuple[str, str]:
    return f"{1e3 * times.median:.2f} ms", f"{1e3 * times.p99:.2f} ms"


def make(subject: Subject, device: str, blocks: list[Block], epoch_starts: list[float], cores: float) -> Report:
    """Makes the report of a trial. blocks: those that have ended. epoch_starts: seconds until each epoch's first batch. cores: number of usable cores."""
    live, cached = ([b for b in blocks if b.kind == kind] for kind in ("live", "cached"))
    steps = [s for b in live for s in b.taken]
    waits, wholes = [s.wait for s in steps], [s.whole for s in steps]
    free = [s for b in cached for s in b.taken]
    gains = [one.mean() / other.mean() for one, other in zip(live, cached, strict=False)]
    usage, counters = live[0].usage
    for block in live[1:]:
        more, counted = block.usage
        usage = usage.plus(more)
        counters = {k: counters.get(k, 0.0) + v for k, v in counted.items()}
    facts = Facts(
        batches=len(steps),
        wait_share=sum(waits) / max(sum(wholes), 1e-9),
        waited=sum(s.host_wait for s in steps),
        own_cpu=sum(s.own_cpu for s in steps),
        step=statistics.fmean(s.whole for s in free) if free else (sum(wholes) - sum(waits)) / len(steps),
        cores=cores,
        usage=usage,
        counters=counters,
    )
    busy = sum(b.usage[0].loop.cpu for b in cached) / max(1e-9, sum(b.usage[0].wall for b in cached)) if cached else 0.0
    return Report(
        loader=str(subject),
        device=device,
        blocks=blocks,
        step=Times.of(wholes),
        wait=Times.of(waits),
        cached=Times.of([s.whole for s in free]) if free else None,
        gains=gains,
        own_cpu=busy,
        bound=find(subject, facts),
        epoch_starts=epoch_starts,
    )
