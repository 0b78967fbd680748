# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import fn, types
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields, require_data_field


class PointsInRangeCheck(PipelineStepBase):
    """Checks for each point in the fields with the given name whether it lies between minimum_point and maximum_point. The rows of these fields are points. The
    results are stored in a field of bools next to the points, under the name is_inside_field_name."""

    def __init__(
        self, points_fields_name: str | int, is_inside_field_name: str | int, minimum_point: Sequence[float], maximum_point: Sequence[float]
    ) -> None:
        self._points_name = points_fields_name
        self._result_name = is_inside_field_name
        self._box = {"lo": [float(v) for v in minimum_point], "hi": [float(v) for v in maximum_point]}

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in data.find_all_occurrences(self._points_name):
            group = data.get_parent_of_path(path)
            with at_path(path_text(path)):
                inside = fn.points_in_box(group[self._points_name], **self._box)
            group.add_data_field(self._result_name, types.BOOL)
            group[self._result_name] = inside
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._points_name, "points", ValueError):
            require_data_field(data_empty, path, "a field of points")
            group = data_empty.get_parent_of_path(path)
            if group.has_child(self._result_name):
                raise ValueError(
                    f"Cannot add '{self._result_name}': there is a field of that name next to the points at '{path_text(path)}'"
                )
            group.add_data_field(self._result_name, types.BOOL, ragged=group.is_ragged(self._points_name))
        return data_empty
