# SPDX-License-Identifier: Apache-2.0
"""Converts batches of a structured pipeline to torch tensors, ragged batches and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import types
from stoker.errors import InvalidArgumentError
from stoker.pipeline import Pipeline
from stoker.plugin.base_iterator import EpochIterator, Taken
from stoker.structured.pipeline.sample_data_group import array_to_text
from stoker.tensors import tensor_list

if TYPE_CHECKING:
    from stoker import _core
    from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class StructuredBatches(EpochIterator):
    """Iterates over one pipeline. Its outputs are the data fields of a blueprint, in the order of field_names_flat, and then the padded values and the sizes of
    ragged fields. A step is a list of one dict, from names of field_names_flat to batches."""

    def __init__(self, pipeline: Pipeline, blueprint: SampleDataGroup, steps: int = 0) -> None:
        """steps: the number of steps in an epoch. It is used only if the pipeline has no epochs of its own, as with a SequenceSampler."""
        if not isinstance(pipeline, Pipeline):
            raise InvalidArgumentError(
                f"a structured pipeline comes from PipelineDefinition.get_dali_pipeline; this is {type(pipeline).__name__}"
            )
        self._names = blueprint.field_names_flat
        self._strings = [k for k, text in enumerate(blueprint.field_strings_flat) if text]
        if pipeline.num_outputs != len(self._names):
            raise InvalidArgumentError(
                f"the pipeline has {pipeline.num_outputs} outputs, and the blueprint {len(self._names)} data fields: take the blueprint that "
                "check_and_get_output_data_structure() of its definition gives"
            )
        self._wanted = [int(t) for t in blueprint.field_types_flat]
        # One entry for each fn.pad_ragged: index of the output with the sizes, index of the first padded output, and indices of the fields.
        self._ragged: list[tuple[int, int, tuple[int, ...]]] = []
        self._total = len(self._names)
        for part in pipeline.ragged_outputs:
            self._ragged.append((self._total + len(part), self._total, part))
            self._total += len(part) + 1
        self._hand_over: Any = None
        names = pipeline._started().core.readers()
        if pipeline.endless and steps > 0:
            super().__init__(pipeline, size=steps * pipeline.batch_size)
        else:
            super().__init__(pipeline, reader_name=names[0] if names and not pipeline._builder.sources else None)

    def _restored_samples(self, state: dict[str, Any]) -> int:
        """Returns how many samples of the current epoch this rank has taken, after a restore in mid-epoch. All batches are full, so this number can be computed
        from the number of samples that all ranks have taken together, even if the number of ranks has changed."""
        batch = self.batch_size * self._pipes[0]._started().meta()["number_of_shards"]
        return int(state["epoch"] * state["size"] + state["consumed"]) // batch * self.batch_size % self._samples

    def __next__(self) -> list[dict[str, Any]]:
        require_different(self._names)
        return [dict(zip(self._names, self.next_values(), strict=False))]

    next = __next__

    def next_values(self) -> list[Any]:
        """Returns the next batch as a list: the values of the data fields in the order of field_names_flat, and then the results of fn.pad_ragged, which are
        already in the fields and are ignored by callers."""
        return self._give(self._values)

    def next_made(self, make: Callable[[list[Any]], Any]) -> Any:
        """Returns make(values) for the values of next_values(). An interrupt during `make` does not lose the batch: the next call returns it."""
        return self._give(lambda step: make(self._values(step)))

    def _values(self, step: list[Taken]) -> list[Any]:
        (taken,) = step
        batch = taken.batch
        if self._hand_over is None:
            self._begin(batch)
        values = self._hand_over.tensors(batch)
        for k in self._strings:
            values[k] = _texts(batch, k)
        for sizes, padded, fields in self._ragged:  # these batches need no checks, since the values come from fn.pad_ragged
            for k, tensor, column in zip(fields, values[padded:sizes], values[sizes].unbind(1), strict=True):
                values[k] = self._ragged_batch._of(tensor, self._layout(None, column), 1)
        for k, name in enumerate(self._names):
            if values[k] is None:
                values[k] = self._uneven(batch, k, name)
        return values

    def _begin(self, batch: _core.Batch) -> None:
        """Checks that the types of the first batch are those of the blueprint, because a user's function may return any type, and prepares the conversion to
        tensors."""
        from stoker.batching import RaggedBatch
        from stoker.batching._shapes import Layout
        from stoker.plugin._handover import AS_IT_LIES, Handover

        for k, (name, wanted) in enumerate(zip(self._names, self._wanted, strict=True)):
            given = batch.describe(k)[2]
            if given != wanted:
                raise InvalidArgumentError(
                    f"field '{name}' is {types.DALIDataType(wanted)} by the blueprint, and the pipeline gives {types.DALIDataType(given)}"
                )
        self._ragged_batch: Any = RaggedBatch
        self._layout: Any = Layout
        self._hand_over = Handover([AS_IT_LIES] * self._total, batch)

    def _uneven(self, batch: _core.Batch, k: int, name: str) -> Any:
        """Pads a field whose samples differ in their first extent although the format did not say so, and returns it as a RaggedBatch. Raises
        InvalidArgumentError if they differ in another extent as well."""
        import torch
        from torch.utils.dlpack import from_dlpack

        samples = [from_dlpack(t) for t in tensor_list(batch, k)]
        shapes = sorted({tuple(s.shape) for s in samples})
        if any(len(s) == 0 or s[1:] != shapes[0][1:] for s in shapes):
            raise InvalidArgumentError(
                f"field '{name}': the samples of a batch differ in shape ({', '.join(map(str, shapes[:3]))}) beyond their first extent: PaddingToUniform pads "
                "them, UnneededFieldRemover removes the field"
            )
        sizes = torch.tensor([len(s) for s in samples], dtype=torch.int64, device="cpu")
        return self._ragged_batch(
            torch.nn.utils.rnn.pad_sequence(samples, batch_first=True), sample_sizes=sizes.to(samples[0].device, non_blocking=True)
        )


def require_different(names: Sequence[str]) -> None:
    """Raises InvalidArgumentError if two data fields have one name of field_names_flat, such as a field "a.b" and the field "b" of a group "a": a dict would
    hold only one of them."""
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InvalidArgumentError(f"two fields have the flat name '{double}': rename the one whose own name has a dot or brackets")


def _texts(batch: _core.Batch, k: int) -> list[Any]:
    texts = []
    for sample in tensor_list(batch, k):
        host = sample.as_cpu()
        texts.append(array_to_text(np.asarray(host)))
    return texts
