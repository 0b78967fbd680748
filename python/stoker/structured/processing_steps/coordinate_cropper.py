# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import math
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps._images import typed_constant
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields, require_data_field


class CoordinateCropper(PipelineStepBase):
    """Clamps the points in all fields with the given name to the box between minimum_point and maximum_point. Each row of a field is a point, or several points
    whose coordinates follow each other, such as the two corners of a box; minimum_point and maximum_point have as many values as a row."""

    def __init__(self, points_fields_name: str | int, minimum_point: Sequence[float], maximum_point: Sequence[float]) -> None:
        if len(minimum_point) != len(maximum_point):
            raise ValueError(f"minimum_point has {len(minimum_point)} values, maximum_point {len(maximum_point)}")
        self._points_name = points_fields_name
        self._minimum_point, self._maximum_point = list(minimum_point), list(maximum_point)

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in data.find_all_occurrences(self._points_name):
            kind = SampleDataGroup.get_numpy_type_for_dali_type(data.get_type_of_item_in_path(path))
            lo, hi = (typed_constant(corner, kind) for corner in (self._minimum_point, self._maximum_point))
            with at_path(path_text(path)):
                data.set_item_in_path(path, math.clamp(data.get_item_in_path(path), lo, hi))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._points_name, "points to crop", ValueError):
            require_data_field(data_empty, path, "a field of points")
        return data_empty
