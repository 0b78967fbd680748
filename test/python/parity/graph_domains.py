# SPDX-License-Identifier: Apache-2.0
"""The calls that random graphs may contain. They come from the tables of cases, split into inputs and arguments, with the rules for comparing results."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cases_generic import BINARY, UNARY
from harness import Batch, Case
from test_operators import CASES

# Graphs leave out these operators: a mixture of the arguments of their cases could draw random numbers, which differ between the libraries.
DRAWN = ("random_bbox_crop", "roi_random_crop", "segmentation.random_mask_pixel", "segmentation.random_object_bbox")
SELECTS = ("interp_type", "min_filter", "mag_filter", "luma_only")  # arguments on which the rule for the comparison depends


@dataclass
class Domain:
    """The calls of one operator, and the values of each argument in these calls."""

    op: str
    calls: list[Case] = field(default_factory=list)
    wrong: list[Case] = field(default_factory=list)  # calls that both libraries refuse
    arguments: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def rule(self, dtype: str, kwargs: dict[str, Any]) -> Case:
        """Returns a Case with the loosest rule among the cases that resemble a call with these arguments on inputs of type `dtype`. If those cases have another
        type, scales their bounds to the range of `dtype`."""
        selected = [c for c in self.calls if all(repr(c.kwargs.get(k)) == repr(kwargs.get(k)) for k in SELECTS)] or self.calls
        same = [c for c in selected if c.inputs and c.inputs[0].samples[0].dtype == dtype] or selected
        bounds = [c.bound * _range(dtype) / _range(_dtype(c)) for c in same if c.bound is not None]
        if all(c.exact for c in same):
            return Case(self.op, exact=True)
        shares = [c.needed(floats=False) for c in same]
        return Case(self.op, bound=max([1.0, *bounds]) if bounds else None, share=min(shares))


def _dtype(case: Case) -> str:
    return str(case.inputs[0].samples[0].dtype) if case.inputs else "float32"


def _range(dtype: str) -> float:
    kind = np.dtype(dtype)
    return float(np.iinfo(kind).max) if kind.kind in "iu" else 1.0


@functools.cache
def domains() -> dict[str, Domain]:
    found: dict[str, Domain] = {}
    for case in CASES:
        if case.build or case.op in DRAWN:
            continue
        domain = found.setdefault(case.op, Domain(case.op))
        (domain.wrong if case.error else domain.calls).append(case)
        for key, value in case.kwargs.items() if not case.error else ():
            domain.arguments[key].append(value)
    return {op: d for op, d in found.items() if d.calls}


@functools.cache
def roots() -> list[Batch]:
    """Returns the first inputs, of all types, of calls without errors: images, volumes, sequences, tensors, boxes, files. Leaves out large inputs."""
    return [c.inputs[0] for c in CASES if c.inputs and not c.error and max(s.size for s in c.inputs[0].samples) < 1 << 17]


@functools.cache
def expressions() -> list[str]:
    """Returns arithmetic over {0} and {1}, and subscripts of {0}."""
    constants = ("3", "2.5", "True", "-2", "0.5", "types.Constant(2).uint8()")
    both = [f"{{0}} {symbol} {{1}}" for symbol in BINARY if symbol != "//" and symbol != "/"]
    one = [f"{{0}} {symbol} {c}" for symbol in BINARY for c in constants]
    other = [f"{c} {symbol} {{0}}" for symbol in BINARY if symbol not in ("/", "//") for c in constants[:4]]
    calls = [f"math.{name}({{0}})" for name in UNARY] + [f"math.{name}({{0}}, {{1}})" for name in ("min", "max", "atan2")]
    return [*both, *one, *other, *calls, "math.clamp({0}, 0.2, 90)", "-{0}", "+{0}", "{0} / ({1} + 0.25)", *_subscripts()]


def _subscripts() -> list[str]:
    found = []
    for case in CASES:
        text = case.title.split("], ")[0] + ("]" if "], " in case.title else "")
        if case.op == "slicing" and re.fullmatch(r"x(\[.*\]|\.shape\(\)(\[0\])?)", text) and not re.search(r"\b[ab]\b", text):
            found.append(re.sub(r"\bx\b", "{0}", text))
    return found
