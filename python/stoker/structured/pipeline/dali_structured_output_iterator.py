# SPDX-License-Identifier: Apache-2.0
"""DALIStructuredOutputIterator, which returns batches of a structured pipeline as trees. It can replace a torch DataLoader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stoker.loader._epoch import call
from stoker.pipeline import Pipeline
from stoker.structured.pipeline._batches import StructuredBatches, require_different
from stoker.structured.pipeline._data_loader_mask import masked_as
from stoker.structured.pipeline.sample_data_group import SampleDataGroup


class DALIStructuredOutputIterator:
    """Iterates over a structured pipeline. Each step yields a tree of the output format, in which each field holds a batch.

    num_batches_in_epoch: the value of len(). An epoch ends with the input's epoch. If an operator reads the samples in the order of a sampler without
        epochs (SequenceSampler), it ends after this number of batches.
    pipeline: the result of PipelineDefinition.get_dali_pipeline.
    sample_data_structure_blueprint: the result of PipelineDefinition.check_and_get_output_data_structure.
    contained_dataset: the value of the attribute `dataset`, which code for DataLoaders may read.
    dali_generic_iterator_class: called with (pipeline, names of outputs); returns an iterator over flat batches, as DALIGenericIterator does. The default one
        returns torch tensors over the pipeline's memory.
    convert_sample_data_group_to_dict: a step is a nested dict if True, a SampleDataGroup if False.
    post_process_func: is called with each step, on the consumer's thread; the iterator returns its result.

    The value of a field is one tensor with the samples along its first axis, or a list of str for texts. A field that is declared ragged, or that
    ConditionalElementRemover has cut, is a RaggedBatch (stoker.batching), which the pipeline's threads make. Any other field is a RaggedBatch, at the cost of a
    copy, only in batches whose samples differ in their first extent.
    """

    class SimpleIterator(Iterator[Any]):
        """Iterates over an epoch. All iterators over one object share its position."""

        def __init__(self, obj: DALIStructuredOutputIterator) -> None:
            self._obj = obj
            self.reset()

        def __next__(self) -> Any:
            return self._obj._next()

        def __iter__(self) -> DALIStructuredOutputIterator.SimpleIterator:
            return self

        def reset(self) -> None:
            """Begins the next epoch of the DALIStructuredOutputIterator."""
            self._obj.reset()

        def __len__(self) -> int:
            return len(self._obj)

    def __init__(
        self,
        num_batches_in_epoch: int,
        pipeline: Pipeline,
        sample_data_structure_blueprint: SampleDataGroup,
        contained_dataset: Any = None,
        dali_generic_iterator_class: Any = None,
        convert_sample_data_group_to_dict: bool = True,
        post_process_func: Callable[[Any], Any] | None = None,
    ) -> None:
        self._num_batches_in_epoch = num_batches_in_epoch
        self._blueprint = sample_data_structure_blueprint.get_empty_like_self()
        names = list(self._blueprint.field_names_flat)
        numbered = self._blueprint.get_empty_like_self()
        numbered.set_data(range(len(names)))
        self._flat_indices = _flat_indices(numbered)
        self._iterator: Any
        if dali_generic_iterator_class is None:
            self._iterator = StructuredBatches(pipeline, self._blueprint, num_batches_in_epoch)
        else:
            require_different(names)
            self._iterator = dali_generic_iterator_class(pipeline, names)
        self._contained_dataset = contained_dataset
        self._convert_sample_data_group_to_dict = convert_sample_data_group_to_dict
        self._post_process_func = post_process_func

    def __iter__(self) -> DALIStructuredOutputIterator.SimpleIterator:
        """Returns an iterator over the next epoch."""
        return self.SimpleIterator(self)

    def __getstate__(self) -> Any:
        raise TypeError(
            "a DALIStructuredOutputIterator cannot be pickled or copied: a copy would take every other batch of the same pipeline. Make another pipeline with "
            "another iterator; internal_iterator.checkpoints() is what to save"
        )

    def _next(self) -> Any:
        step: Any
        if isinstance(self._iterator, StructuredBatches):
            step = self._iterator.next_made(self._made)
        else:
            step = self._blueprint.get_empty_like_self()
            step.set_data_from_dali_generic_iterator_output(next(self._iterator), 0)
            step = step.to_dictionary() if self._convert_sample_data_group_to_dict else step
        return step if self._post_process_func is None else call("post_process_func", self._post_process_func, step)

    def _made(self, values: list[Any]) -> Any:
        if self._convert_sample_data_group_to_dict:
            return _nested(self._flat_indices, values)
        step: Any = self._blueprint.get_empty_like_self()
        step.set_data(values[: len(self._blueprint.field_names_flat)])
        return step

    def reset(self) -> None:
        """Begins the next epoch. Call it at the end of an epoch."""
        self._iterator.reset()

    @property
    def sample_data_structure_blueprint(self) -> SampleDataGroup:
        """Returns the output format."""
        return self._blueprint.get_empty_like_self()

    @property
    def internal_iterator(self) -> Any:
        """Returns the iterator from which this one takes its batches. Its batches are no trees: they have an entry for each name of field_names_flat."""
        return self._iterator

    @property
    def dataset(self) -> Any:
        """Returns contained_dataset, or this object if that is None."""
        return self if self._contained_dataset is None else self._contained_dataset

    def __len__(self) -> int:
        return self._num_batches_in_epoch

    @classmethod
    def CreateAsDataLoaderObject(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an iterator for code that requires isinstance(loader, torch.utils.data.DataLoader). Reading an attribute of DataLoader that this class lacks
        raises RuntimeError."""
        from torch.utils.data import DataLoader

        return masked_as(cls, DataLoader)(*args, **kwargs)


def _flat_indices(group: SampleDataGroup) -> list[tuple[Any, Any]]:
    """Returns a list of (name, value) for the children of a group. The value of a data field is its index in field_names_flat; that of a child group is the
    group's own list."""
    return [(name, _flat_indices(field.value) if field.is_group else field.value) for name, field in group._fields.items()]


def _nested(indices: list[tuple[Any, Any]], values: list[Any]) -> dict[Any, Any]:
    """Returns flat values as nested dicts, as SampleDataGroup.to_dictionary does. indices: the result of _flat_indices."""
    return {name: values[index] if type(index) is int else _nested(index, values) for name, index in indices}
