# SPDX-License-Identifier: Apache-2.0
"""Iterators that return JAX arrays over the pipeline's memory, with DALI's names. JAX is imported when an iterator is made."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.pipeline import Pipeline
from stoker.plugin.base_iterator import LastBatchPolicy
from stoker.plugin.dlpack import DLPackIterator

__all__ = ["DALIGenericIterator", "LastBatchPolicy"]


class DALIGenericIterator(DLPackIterator):
    """Iterates over a pipeline. A step is a dict from the names in output_map to JAX arrays.

    An epoch ends after `size` samples, or with the epoch of the reader whose `name` is reader_name. last_batch_policy is FILL or DROP, because JAX compiles a
    function again for each new shape. After StopIteration, reset() begins the next epoch; with auto_reset=True it is called for you.
    """

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        sharding: Any = None,
    ) -> None:
        if last_batch_policy is LastBatchPolicy.PARTIAL:
            raise InvalidArgumentError("last_batch_policy is FILL or DROP: JAX's compiled functions want batches of one size")
        if sharding is not None:
            raise UnsupportedError(
                "sharding: give an iterator to each process, and join its arrays by jax.make_array_from_process_local_data"
            )
        from_dlpack = importlib.import_module("jax.dlpack").from_dlpack
        super().__init__(
            pipelines, output_map, from_dlpack, size, reader_name, auto_reset, last_batch_padded, last_batch_policy, prepare_first_batch
        )
