# SPDX-License-Identifier: Apache-2.0
"""Tests on a GPU are skipped with a reason if no GPU can be used. With STOKER_TEST_GPU=1 (make test-gpu) the run fails at its start instead."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "parity"))  # the tests of this folder use the tables of calls in `parity`

from both_sides import gpus, why_no_gpu  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("STOKER_TEST_GPU") == "1" and why_no_gpu():
        pytest.exit(f"STOKER_TEST_GPU=1, but no GPU can be used: {why_no_gpu()}", 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if why_no_gpu():
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {why_no_gpu()}"))


@pytest.fixture
def torch_cuda():
    """Returns torch, or skips the test if torch has no CUDA. torch does not run on the driver that is emulated on the host."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    return torch


@pytest.fixture
def two_gpus():
    if gpus() < 2:
        pytest.skip("there is one GPU")
