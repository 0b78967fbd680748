# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, types
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import Path, SampleDataGroup, path_text
from stoker.structured.processing_steps._images import image_size, typed_constant
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields


class VisibleBboxSelector(PipelineStepBase):
    """Finds the boxes of an image that are visible, and stores a bool for each box in a new field.

    A box is (left, top, right, bottom) in pixels. check_for_bbox_occlusion: a box is not visible if boxes with smaller depths cover it, or if it lies outside
    of the image. check_for_minimum_size: a box is not visible if the part of it that lies in the image is less than minimum_bbox_size pixels high or wide.
    bboxes_field_name, depths_field_name: names of the fields with the boxes and their depths. The name of each field that the step reads must occur once in the
    tree; if it occurs more often, wrap the step (see PipelineStepBase). resulting_mask_field_path: the path of the new field. The image's size comes from one
    of image_field_name (the image), image_hw_field_name (a field with height and width) and image_hw (a constant).
    """

    def __init__(
        self,
        bboxes_field_name: str | int,
        resulting_mask_field_path: Path,
        image_field_name: str | int | None = None,
        image_hw_field_name: str | int | None = None,
        image_hw: Sequence[int] | None = None,
        check_for_bbox_occlusion: bool = True,
        check_for_minimum_size: bool = True,
        depths_field_name: str | int | None = None,
        minimum_bbox_size: float | None = None,
    ) -> None:
        if sum(x is not None for x in (image_field_name, image_hw_field_name, image_hw)) != 1:
            raise AssertionError(
                "Exactly one of 'image_field_name', 'image_hw_field_name', or 'image_hw' must be set: the image's size comes from it"
            )
        if not (check_for_bbox_occlusion or check_for_minimum_size):
            raise AssertionError("At least one of the parameters `check_for_bbox_occlusion` and `check_for_minimum_size` has to be `True`")
        if check_for_minimum_size and minimum_bbox_size is None:
            raise AssertionError("If `check_for_minimum_size` is set, `minimum_bbox_size` has to be set too")
        if check_for_bbox_occlusion and depths_field_name is None:
            raise AssertionError("If `check_for_bbox_occlusion` is set, `depths_field_name` has to be set too")
        self._boxes, self._depths = bboxes_field_name, depths_field_name if check_for_bbox_occlusion else None
        self._image, self._hw_field, self._hw = image_field_name, image_hw_field_name, image_hw
        self._minimum_size = minimum_bbox_size if check_for_minimum_size else None
        self._result: tuple[Any, ...] = (
            (resulting_mask_field_path,)
            if SampleDataGroup.path_is_single_name(resulting_mask_field_path)
            else tuple(resulting_mask_field_path)  # type: ignore[arg-type]
        )

    def _size(self, data: SampleDataGroup) -> Any:
        if self._hw is not None:
            return typed_constant(self._hw, "int32")
        if self._image is not None:
            return image_size(data.get_item_in_path(data.find_all_occurrences(self._image)[0]))
        assert self._hw_field is not None
        return data.get_item_in_path(data.find_all_occurrences(self._hw_field)[0])

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        path = data.find_all_occurrences(self._boxes)[0]
        with at_path(path_text(path)):
            inputs = [data.get_item_in_path(path), self._size(data)]
            if self._depths is not None:
                inputs.append(data.get_item_in_path(data.find_all_occurrences(self._depths)[0]))
            mask = fn.bbox_visibility(*inputs, occlusion=self._depths is not None, min_size=float(self._minimum_size or 0))
        group = data.get_item_in_path(self._result[:-1])
        group.add_data_field(self._result[-1], types.BOOL)
        group[self._result[-1]] = mask
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        wanted = ((self._boxes, "bounding boxes"), (self._depths, "depths"), (self._image, "the image"), (self._hw_field, "the image size"))
        for name, what in wanted:
            if name is None:
                continue
            paths = find_fields(data_empty, name, what, ValueError)
            if len(paths) > 1:
                where = ", ".join(map(path_text, paths))
                raise ValueError(
                    f"More than one field '{name}' for {what}: {where}. Wrap the step, so that it is applied to each part of the tree"
                )
        group = data_empty.get_item_in_path(self._result[:-1])
        if group.has_child(self._result[-1]):
            raise ValueError(f"There is a field '{path_text(self._result)}' already: the result cannot be stored there")
        ragged = data_empty.is_ragged(data_empty.find_all_occurrences(self._boxes)[0])
        group.add_data_field(self._result[-1], types.BOOL, ragged=ragged)
        return data_empty
