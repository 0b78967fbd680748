# SPDX-License-Identifier: Apache-2.0
"""Iterators that hand batches to a framework."""

from __future__ import annotations

from typing import NoReturn

from stoker._where import missing

# DALI's plugins for other frameworks: what to do instead.
_DALI = {
    "jax": "what Pipeline.run() gives takes part in DLPack: jax.dlpack.from_dlpack(output.as_tensor())",
    "numba": "fn.external_source takes functions that numba compiled",
    "paddle": "what Pipeline.run() gives takes part in DLPack: paddle.utils.dlpack.from_dlpack(output.as_tensor().__dlpack__())",
    "tf": "what Pipeline.run() gives takes part in DLPack: tf.experimental.dlpack.from_dlpack(output.as_tensor().__dlpack__())",
    "triton": "Stoker has no backend for Triton's server",
}


def __getattr__(name: str) -> NoReturn:
    hint = f": it is of DALI alone; {_DALI[name]}" if name in _DALI else ""
    raise missing(f"module 'stoker.plugin' has no attribute {name!r}{hint}")
