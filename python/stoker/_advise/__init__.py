# SPDX-License-Identifier: Apache-2.0
"""advise: what does the data cost this training loop, and would a faster loader help?

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

or, as with text whose tokens are cheap, that a faster loader would not help. png= and json= write the timeline and the figures.

The trial goes in rounds: some steps as they are, then as many on a few batches that were kept, where no data has to be made. Only the second kind shows what
could be gained: while the loop waits the GPU may still have work, and a loader that never makes it wait may take cores from it. Cached steps take the place
of others, so that an epoch keeps its number of steps; but they train on the same few batches, so the run is a trial, and not one to keep. With cached=False
only the wait is measured, and the run is an ordinary one.

On a GPU the host runs ahead, and the wall clock says nothing about single steps. If torch.cuda is in use when the trial begins, the borders of a step are
CUDA events on the loop's current stream: between "asked for" and "got" the GPU has nothing to do. Recording events waits for
nothing; torch.cuda.synchronize is called once at the end of each block of steps, where events are read, and nowhere else. Without a GPU torch is not even
imported.
"""

from __future__ import annotations

import os
from typing import Any

from stoker._advise.plan import Plan
from stoker._advise.report import Report
from stoker._advise.watch import Watched

__all__ = ["Report", "Watched", "advise"]


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
    """Wraps a loader; iterated over in its place, it finds out what the data costs the loop.

    loader: anything to iterate over. Its other methods and attributes stay reachable (`len`, `state_dict`, `sampler`, ...).
    steps: steps in a block, the first few of which only let the queues settle. rounds: how many, each of a live and a cached block. warmup: steps
    before the first block.
    cached: batches kept for the cached steps (fewer if they are over 2 GiB); False: no cached steps.
    png, json: files for the timeline and the figures. quiet: do not print the report when it is done. Under torchrun rank 0 prints and writes; wrap the
    loader on all ranks, with the same numbers.

    report() gives the findings so far, at any time.
    """
    if not hasattr(loader, "__iter__"):
        raise TypeError(f"advise: the loader is something to iterate over, such as a Loader or a DataLoader, not {type(loader).__name__}")
    plan = Plan(int(steps), int(rounds), int(warmup), 0 if cached is False else 8 if cached is True else int(cached))
    return Watched(loader, plan, png=png, json=json, quiet=quiet)
