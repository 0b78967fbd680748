# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.data_groups_with_name_applied_step import DataGroupsWithNameAppliedStep
from stoker.structured.processing_steps.group_to_apply_to_selected_step_base import elements_of
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase


class DataGroupArrayWithNameElementsAppliedStep(DataGroupsWithNameAppliedStep):
    """Applies a step to each element of all arrays of groups with the given name. check_minimum_one_name_match: whether to raise ValueError if there is no such
    array."""

    def __init__(
        self, processing_step_to_apply: PipelineStepBase, name_of_arrays_to_apply_to: str | int, check_minimum_one_name_match: bool = True
    ) -> None:
        if not isinstance(name_of_arrays_to_apply_to, (str, int)):
            raise AssertionError(f"name_of_arrays_to_apply_to is a str or an int, not {type(name_of_arrays_to_apply_to).__name__}")
        super().__init__(processing_step_to_apply, name_of_arrays_to_apply_to, check_minimum_one_name_match)

    def _check_and_get_paths_to_apply_to(self, data: SampleDataGroup) -> Sequence[tuple[str | int, ...]]:
        paths = super()._check_and_get_paths_to_apply_to(data)
        return [element for path in paths for element in elements_of(data, path, type(self).__name__)]
