# SPDX-License-Identifier: Apache-2.0
"""An iterator for every framework with a function from_dlpack: CuPy, NumPy, JAX, MLX, Paddle, TensorFlow.

    for step in DLPackIterator(pipeline, ["image", "label"], cupy.from_dlpack, reader_name="Reader"):
        step["image"]

stoker.plugin.pytorch and stoker.plugin.jax have iterators of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.pipeline import Pipeline
from stoker.plugin.base_iterator import EpochIterator, LastBatchPolicy, Taken
from stoker.tensors import tensor_list

__all__ = ["DLPackIterator", "LastBatchPolicy"]


class DLPackIterator(EpochIterator):
    """Iterates over a pipeline. A step is a dict from the names in output_map to the arrays that from_dlpack returns, which share the pipeline's memory.

    An epoch ends after `size` samples, or with the epoch of the reader whose `name` is reader_name. last_batch_policy: what the epoch's last batch contains;
    see LastBatchPolicy. After StopIteration, reset() begins the next epoch; with auto_reset=True it is called for you.
    """

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        from_dlpack: Callable[[Any], Any],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self.output_map = list(output_map)
        self._from_dlpack = from_dlpack
        if len(set(self.output_map)) != len(self.output_map):
            raise InvalidArgumentError(f"the names in output_map must differ: {self.output_map}")
        if not isinstance(pipelines, Pipeline) and len(pipelines) > 1:
            raise InvalidArgumentError(
                f"{len(pipelines)} pipelines: make an iterator for each, and put their arrays together as the framework does"
            )
        super().__init__(
            pipelines,
            size=size,
            reader_name=reader_name,
            auto_reset=auto_reset,
            last_batch_padded=last_batch_padded,
            last_batch_policy=last_batch_policy,
            prepare_first_batch=prepare_first_batch,
        )
        if self._pipes[0].num_outputs != len(self.output_map):
            raise InvalidArgumentError(f"output_map has {len(self.output_map)} names, the pipeline {self._pipes[0].num_outputs} outputs")

    def __next__(self) -> dict[str, Any]:
        return self._give(self._step_of)

    def _step_of(self, step: list[Taken]) -> dict[str, Any]:
        (taken,) = step
        arrays = {}
        for i, name in enumerate(self.output_map):
            array = self._from_dlpack(tensor_list(taken.batch, i).as_tensor())
            arrays[name] = array if taken.valid == len(taken.batch) else array[: taken.valid]
        return arrays

    next = __next__
