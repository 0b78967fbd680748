# SPDX-License-Identifier: Apache-2.0
"""Runs each case of the tables as one test. Cases with images run again without the layout, which both libraries then derive from the dims."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest
from harness import Batch, Case, check

TABLES = ("cases_decoders", "cases_geometry", "cases_transforms", "cases_warps", "cases_pixels", "cases_generic")
BY_LAYOUT = (
    "cases_tensors",
    "cases_reductions",
    "cases_audio",
    "cases_sounds",
    "cases_filters",
    "cases_frames",
    "cases_boxes",
    "cases_resize",
)  # cases that are only valid with their layouts, so they do not run again without them
IMAGES = [case for table in TABLES for case in importlib.import_module(table).all_cases()]
CASES = [*IMAGES, *(case for table in BY_LAYOUT for case in importlib.import_module(table).all_cases())]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.name}" for i, c in enumerate(CASES)])
def test_as_dali(case: Case) -> None:
    check(case)


def undeclared(case: Case) -> Case | None:
    """Returns the case without its first input's layout. Returns None if there is no layout, if the dims imply another one, if `build` makes the call, or if
    axes are given by name, which DALI refuses without a layout."""
    first = case.inputs[0] if case.inputs else None
    if (
        first is None
        or first.layout is None
        or case.build
        or "axis_names" in case.kwargs
        or first.layout != {3: "HWC", 4: "FHWC"}.get(first.samples[0].ndim)
    ):
        return None
    title = f"{first.samples[0].dtype} without layout: {case.name}"
    return replace(case, inputs=[Batch(first.samples, None), *case.inputs[1:]], title=title)


UNDECLARED = [u for u in map(undeclared, IMAGES) if u is not None]


@pytest.mark.parametrize("case", UNDECLARED, ids=[f"{i}-{c.title}" for i, c in enumerate(UNDECLARED)])
def test_as_dali_without_layout(case: Case) -> None:
    check(case)
