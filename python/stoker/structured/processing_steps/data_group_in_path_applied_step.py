# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker.structured.pipeline.sample_data_group import Path, SampleDataGroup
from stoker.structured.processing_steps.group_to_apply_to_selected_step_base import GroupToApplyToSelectedStepBase
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase


class DataGroupInPathAppliedStep(GroupToApplyToSelectedStepBase):
    """Applies a step to the group at a path."""

    def __init__(self, processing_step_to_apply: PipelineStepBase, path_to_apply_to: Path) -> None:
        super().__init__(processing_step_to_apply)
        single = SampleDataGroup.path_is_single_name(path_to_apply_to)
        self._path: tuple[str | int, ...] = (path_to_apply_to,) if single else tuple(path_to_apply_to)  # type: ignore[arg-type, assignment]

    def _check_and_get_paths_to_apply_to(self, data: SampleDataGroup) -> Sequence[tuple[str | int, ...]]:
        if not self._path:
            raise ValueError(f"{type(self).__name__}: the empty path is the whole tree: use the step without a wrapper")
        if not data.path_exists_and_is_data_group_field(self._path):
            known = ", ".join(data.field_names_flat)
            raise ValueError(
                f"{type(self).__name__}: Path {self._path} does not exist or is not a data group field. The fields are: {known}"
            )
        return [self._path]
