# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker.structured.pipeline.sample_data_group import Path, SampleDataGroup
from stoker.structured.processing_steps.data_group_in_path_applied_step import DataGroupInPathAppliedStep
from stoker.structured.processing_steps.group_to_apply_to_selected_step_base import elements_of
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase


class DataGroupArrayInPathElementsAppliedStep(DataGroupInPathAppliedStep):
    """Applies a step to each element of the array of groups at a path."""

    def __init__(self, processing_step_to_apply: PipelineStepBase, path_to_array_to_apply_to: Path) -> None:
        super().__init__(processing_step_to_apply, path_to_array_to_apply_to)

    def _check_and_get_paths_to_apply_to(self, data: SampleDataGroup) -> Sequence[tuple[str | int, ...]]:
        paths = super()._check_and_get_paths_to_apply_to(data)
        return [element for path in paths for element in elements_of(data, path, type(self).__name__)]
