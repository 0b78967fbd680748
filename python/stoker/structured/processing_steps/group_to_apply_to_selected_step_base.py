# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase


class GroupToApplyToSelectedStepBase(PipelineStepBase):
    """Applies a step to selected groups of the tree, as if each group were the whole tree. A step with random draws draws separately for each group."""

    def __init__(self, processing_step_to_apply: PipelineStepBase) -> None:
        self._processing_step_to_apply = processing_step_to_apply

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in self._check_and_get_paths_to_apply_to(data):
            with at_path(path_text(path)):
                applied = self._processing_step_to_apply(data.get_item_in_path(path))
            data.change_type_of_data_and_remove_data(path, applied)
            data.set_item_in_path(path, applied)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in self._check_and_get_paths_to_apply_to(data_empty):
            group = data_empty.get_item_in_path(path)
            applied = self._processing_step_to_apply.check_input_data_format_and_set_output_data_format(group)
            data_empty.change_type_of_data_and_remove_data(path, applied)
        return data_empty

    @abstractmethod
    def _check_and_get_paths_to_apply_to(self, data: SampleDataGroup) -> Sequence[tuple[str | int, ...]]:
        """Returns the paths of the groups to which the step is applied. Raises an error if `data` lacks a group that it must have."""


def elements_of(data: SampleDataGroup, path: tuple[str | int, ...], step: str) -> list[tuple[str | int, ...]]:
    """Returns the paths of the elements of an array of groups. Raises ValueError if the group is not such an array. step: the step's name in the message."""
    array = data.get_item_in_path(path)
    if not array.is_data_group_field_array():
        names = ", ".join(map(str, array.contained_top_level_field_names))
        raise ValueError(f"{step}: item in path {path} is not a data group field array: its children are {names or 'none'}")
    return [(*path, i) for i in range(len(array))]
