# SPDX-License-Identifier: Apache-2.0
"""Fixtures `device` and `cuda`. Tests that take `device` run on the CPU and on CUDA; tests that take `cuda` run only on CUDA. Without a GPU, runs on CUDA are
skipped."""

import contextlib

import pytest
import torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return request.param


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return "cuda"


@pytest.fixture(autouse=True)
def counters_start_from_zero():
    import stoker.batching

    with contextlib.suppress(IndexError):
        stoker.batching.check()
