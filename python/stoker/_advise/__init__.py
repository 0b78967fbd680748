# SPDX-License-Identifier: Apache-2.0
"""advise measures how much time a training loop loses to its data, and whether a faster loader would help.

    from stoker import advise

    train = advise(train)                        # a Loader, a DataLoader, or anything else that is iterated over
    for images, labels in train:                 # the loop stays as it is
        step(images, labels)

After about 300 steps, by default, it prints what it found:

    advise: Loader, 2 threads; times of the GPU
                             median        p99
      step                 61.20 ms   95.00 ms  120 steps in 3 blocks
        waiting for data   22.90 ms   58.10 ms  37.4% of the step
      step on cached data  38.10 ms   39.00 ms  where no data has to be made
      bound by cores: the loader's 2 threads were busy 99% of the time, the 2 usable cores 98%; without a wait it would need 3.3 cores for itself
      A perfect loader makes the loop 1.61 times as fast (1.55 to 1.64).

The last line may also say that a faster loader would not help. png= and json= name files for a timeline and for the figures.

The trial has rounds. Each round has some steps on the loader's batches ("live" steps) and then as many on a few batches that were kept ("cached" steps), for
which no data has to be made. Only cached steps show what a faster loader could gain: the GPU may still have work while the loop waits for data, and a loader
that never makes the loop wait may still take CPU time from it. Cached steps replace live ones, so that an epoch keeps its number of steps. But they train on
the same few batches, so the resulting model should not be kept. With cached=False only the wait is measured, and the run is an ordinary one.

On a GPU the host's clock does not show how long a step takes, because the host only queues work. If torch.cuda is in use, CUDA events on the loop's current
stream therefore mark the beginning and the end of each step. A trial that began before the loop used torch.cuda starts again. Recording an event waits for
nothing. torch.cuda.synchronize is called only at the end of each block of steps, where the events are read. This module never imports torch itself.
"""

from __future__ import annotations

import os
from typing import Any

from stoker import _numbers
from stoker._advise.plan import Plan
from stoker._advise.report import Report
from stoker._advise.watch import Watched
from stoker._signatures import suggests

__all__ = ["Report", "Watched", "advise"]


@suggests
def advise(
    loader: Any,
    *,
    steps: int = 40,
    rounds: int = 3,
    warmup: int = 20,
    cached: int | bool = 8,
    png: str | os.PathLike[str] | None = None,
    json: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> Watched:
    """Returns a wrapper of a loader. The wrapper measures the loop that iterates over it.

    loader: anything to iterate over. The wrapper has the loader's methods and attributes too (`len`, `state_dict`, `sampler`, ...).
    steps: measured steps of a block. A few other steps precede them, so that queues can fill. rounds: number of rounds, each with a live and a cached
    block. warmup: steps before the first measured one.
    cached: number of batches that are kept for cached steps (fewer if they take more than 2 GiB); False: no cached steps.
    png, json: paths of files for the timeline and the figures. quiet: True does not print the report. Under torchrun only rank 0 prints and writes; wrap
    the loader on all ranks, with the same numbers.

    The wrapper's method report() returns the findings so far, at any time. Raises TypeError if the loader cannot be iterated over.
    """
    if isinstance(loader, type) or not hasattr(loader, "__iter__"):
        given = f"the class {loader.__name__}" if isinstance(loader, type) else type(loader).__name__
        raise TypeError(f"advise: the loader is something to iterate over, such as a Loader or a DataLoader, not {given}")
    plan = Plan(steps, rounds, warmup, 0 if cached is False else 8 if cached is True else cached)
    return Watched(loader, plan, png=png, json=json, quiet=_numbers.flag("advise: quiet", quiet))
