# SPDX-License-Identifier: Apache-2.0
"""Iterators that return a pipeline's batches as tensors of a framework: PyTorch, JAX, or any that supports DLPack."""

from __future__ import annotations

from typing import NoReturn

from stoker._elsewhere import no_attribute


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
