# SPDX-License-Identifier: Apache-2.0
"""The number of instructions for an image is within 5% of the recorded one at each level of SIMD. This shows the cost of a change, even on a busy machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import instructions  # noqa: E402

ADVICE = (
    "If that is meant, `make instructions RECORD=1` records it, and the commit says why; if not, this change costs more than it should."
)


@pytest.fixture(scope="module")
def build() -> Path:
    folder = ROOT / os.environ.get("STOKER_BUILD", "build")
    reason = instructions.why_not(folder)
    if reason:
        pytest.skip(reason)
    return folder


@pytest.mark.parametrize("level", instructions.LEVELS)
def test_instructions_an_image_are_the_recorded_ones(build: Path, level: str) -> None:
    if level not in instructions.levels(build):
        pytest.skip(f"this processor has no {level}")
    wrong = instructions.complaints(instructions.count_all(build, level), instructions.recorded()[1][level], level)
    assert not wrong, "\n".join([*wrong, ADVICE])


def test_more_than_the_tolerance_is_complained_of() -> None:
    record = dict.fromkeys(instructions.WORK, 1_000_000)
    assert not instructions.complaints(dict.fromkeys(record, 1_049_000), record, "c")
    assert len(instructions.complaints({**record, "whole": 1_051_000}, record, "c")) == 1
    assert len(instructions.complaints({**record, "pass": 949_000}, record, "c")) == 1
