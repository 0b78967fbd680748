# SPDX-License-Identifier: Apache-2.0
"""Iterators that hand batches to a framework."""

from __future__ import annotations

from typing import NoReturn

from stoker._where import missing

# DALI's plugins for other frameworks: what to do instead.
_DALI = {
    "numba": "fn.external_source takes functions that numba compiled",
    "paddle": "stoker.plugin.dlpack.DLPackIterator takes its from_dlpack: lambda tensor: paddle.utils.dlpack.from_dlpack(tensor.__dlpack__())",
    "tf": "stoker.plugin.dlpack.DLPackIterator takes its from_dlpack: lambda tensor: tf.experimental.dlpack.from_dlpack(tensor.__dlpack__())",
    "triton": "Stoker has no backend for Triton's server",
}


def __getattr__(name: str) -> NoReturn:
    hint = f": it is of DALI alone; {_DALI[name]}" if name in _DALI else ""
    raise missing(f"module 'stoker.plugin' has no attribute {name!r}{hint}")
