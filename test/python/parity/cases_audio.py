# SPDX-License-Identifier: Apache-2.0
"""Operators on signals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, Name, T, rng_of
from samples import INTEGERS, per_sample


def preemphasis_filter() -> Iterator[Case]:
    rng = rng_of("preemphasis_filter")

    def signals(dtype: str = "float32", *shapes: tuple[int, ...]) -> Batch:
        drawn = [rng.standard_normal(shape) * 100 for shape in shapes or ((1,), (2,), (1000,), (513,))]
        return Batch([x.astype(dtype) for x in drawn])

    def case(batch: Batch, **kwargs: Any) -> Case:
        return Case("preemphasis_filter", [batch], kwargs, exact=True)

    yield case(signals())
    for border in ("zero", "clamp", "reflect"):
        longer = signals("float32", (2,), (1000,), (513,))  # for signals of one element, "reflect" makes DALI read the memory after them
        yield case(longer, border=border, preemph_coeff=0.9)
        yield case(signals("float32", (300, 2), (5, 1)), border=border)
    for dtype in (*INTEGERS, "float64"):
        batch = Batch([np.abs(x).astype(dtype) for x in signals("float64").samples]) if dtype.startswith("u") else signals(dtype)
        yield case(batch)
        yield case(signals(), dtype=Name(dtype.upper()))
    yield case(signals("float64"), dtype=T.FLOAT64)
    yield case(signals("float32", (10,), (20,), (30,)), preemph_coeff=per_sample([0, 0.5, 1.5], "float32"))
    yield Case("preemphasis_filter", [signals()], {"border": "mirror"}, error=True)
    yield Case("preemphasis_filter", [Batch([np.ones(4, bool)] * 2)], {}, error=True)


def all_cases() -> Iterator[Case]:
    yield from preemphasis_filter()
