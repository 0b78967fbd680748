# SPDX-License-Identifier: Apache-2.0
"""Shrinks a graph that fails: removes operators and arguments, keeps one sample, and halves axes of arrays, as long as the graph still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from graph_program import Program, Step
from harness import Batch

Fails = Callable[[Program], bool]
TRIES = 200


def shrunk(program: Program, values: dict[str, Batch], fails: Fails) -> Program:
    """Returns the smallest program found that still fails. values: outputs of the program's steps. If a step is removed, its outputs become sources with these
    values for the steps that read them."""
    tries, again = 0, True
    while again:
        again = False
        for smaller in _smaller(program, values):
            tries += 1
            if tries > TRIES:
                return program.used()
            if fails(smaller):
                program, again = smaller, True
                break
    return program.used()


def _smaller(program: Program, values: dict[str, Batch]) -> Iterator[Program]:
    if len(program.steps) > 1:
        for k in reversed(range(len(program.steps))):
            yield _without_step(program, k, values)
    for k, step in enumerate(program.steps):
        for key in step.kwargs:
            less = replace(step, kwargs={n: v for n, v in step.kwargs.items() if n != key}, outputs=list(step.outputs))
            yield replace(program, steps=_exchanged(program.steps, k, less))
    if program.size > 1:
        for i in range(program.size):
            yield replace(program, sources={n: Batch([b.samples[i]], b.layout) for n, b in program.sources.items()})
    for name, batch in program.used().sources.items():
        for axis in range(batch.samples[0].ndim):
            if max(s.shape[axis] for s in batch.samples) > 1:
                halves = [np.ascontiguousarray(np.take(s, range((s.shape[axis] + 1) // 2), axis)) for s in batch.samples]
                yield replace(program, sources={**program.sources, name: Batch(halves, batch.layout)})


def _exchanged(steps: list[Step], k: int, step: Step) -> list[Step]:
    return [*steps[:k], step, *steps[k + 1 :]]


def _without_step(program: Program, k: int, values: dict[str, Batch]) -> Program:
    gone = {o: values[o] for o in program.steps[k].outputs if o in values}
    return Program({**program.sources, **gone}, [*program.steps[:k], *program.steps[k + 1 :]]).used()
