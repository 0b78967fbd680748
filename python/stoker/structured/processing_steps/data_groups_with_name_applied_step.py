# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.group_to_apply_to_selected_step_base import GroupToApplyToSelectedStepBase
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase


class DataGroupsWithNameAppliedStep(GroupToApplyToSelectedStepBase):
    """Applies a step to all groups with the given name or names. check_minimum_one_name_match: whether to raise ValueError if a name is not found."""

    def __init__(
        self,
        processing_step_to_apply: PipelineStepBase,
        names_of_groups_to_apply_to: str | int | Sequence[str | int],
        check_minimum_one_name_match: bool = True,
    ) -> None:
        super().__init__(processing_step_to_apply)
        names = names_of_groups_to_apply_to
        self._names = [names] if isinstance(names, (str, int)) else list(names)
        self._check_minimum_one_name_match = check_minimum_one_name_match

    def _check_and_get_paths_to_apply_to(self, data: SampleDataGroup) -> Sequence[tuple[str | int, ...]]:
        paths = []
        for name in self._names:
            found = data.find_all_occurrences(name)
            if self._check_minimum_one_name_match and not found:
                known = ", ".join(data.field_names_flat)
                raise ValueError(f"{type(self).__name__}: No fields with name '{name}' found. The fields are: {known}")
            for path in found:
                if not data.path_exists_and_is_data_group_field(path):
                    raise ValueError(f"{type(self).__name__}: Field in path {path} is not a data group field")
            paths += found
        return paths
