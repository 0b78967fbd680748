# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, types
from stoker._where import at_path
from stoker.structured.pipeline.sample_data_group import FieldExistsError, SampleDataGroup, path_text
from stoker.structured.processing_steps._images import image_size
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, find_fields, place_of

Name = str | int


class BoundingBoxToHeatmapConverter(PipelineStepBase):
    """Draws the boxes of each annotation with the given name as Gaussians into a heatmap, and adds the heatmap to the annotation's fields.

    Input. An annotation is a group of fields. bboxes_in_name: boxes (left, top, right, bottom) in pixels of an image. center_opt_in_name: centres (x, y) in
    pixels of the image; by default the centres of the boxes. categories_in_name: the category of each box. The image's size comes from a field next to the
    annotation: the image (image_field_name), or a field with height and width (image_hw_field_name). Boxes are scaled to the heatmap's size, heatmap_hw
    (height, width), and cut at its border.

    Output. heatmap_out_name: the heatmap, float32, of shape (num_categories, H, W), or (H, W) with use_per_category_heatmap=False. The other *_out_name
    arguments name further fields, with a row for each box, or are None: is_active (bool, whether the box was drawn), center (int32, the pixel of the heatmap
    in which the box's centre lies), center_offset (from that pixel to the exact centre), height_width_bboxes_heatmap (the box's height and width in pixels of
    the heatmap) and bboxes_heatmap (the box in pixels of the heatmap).

    A box is active, and drawn, if all of these hold: its category is below num_categories; its bool in the field is_valid_opt_in_name, if there is one, is
    true; at least min_fraction_area_clipping of its area lies inside the image; and this part is at least as high and wide as min_object_size, or as
    per_category_min_object_sizes of its category: (height, width) in pixels of the heatmap.
    The radius of a Gaussian is the distance of the centre from the nearest side of the box, times radius_scaling_factor, at least min_radius (and 0.5), and at
    most max_radius. Its standard deviation is the radius times radius_to_sigma_factor.
    """

    def __init__(
        self,
        annotation_field_name: Name,
        bboxes_in_name: Name,
        heatmap_out_name: Name,
        heatmap_hw: Sequence[int],
        image_field_name: Name | None = None,
        image_hw_field_name: Name | None = None,
        categories_in_name: Name | None = None,
        num_categories: int | None = None,
        min_object_size: Sequence[float] | None = None,
        per_category_min_object_sizes: Sequence[Sequence[float]] | None = None,
        use_per_category_heatmap: bool = True,
        is_valid_opt_in_name: Name | None = None,
        center_opt_in_name: Name | None = None,
        is_active_opt_out_name: Name | None = None,
        center_opt_out_name: Name | None = None,
        center_offset_opt_out_name: Name | None = None,
        height_width_bboxes_heatmap_opt_out_name: Name | None = None,
        bboxes_heatmap_opt_out_name: Name | None = None,
        min_fraction_area_clipping: float = 0.25,
        min_radius: float = 0.5,
        max_radius: float = 10.0,
        radius_scaling_factor: float = 0.8,
        radius_to_sigma_factor: float = 1.0 / 3.0,
    ) -> None:
        if (image_field_name is None) == (image_hw_field_name is None):
            raise ValueError("Exactly one of 'image_field_name' or 'image_hw_field_name' must be set: the image's size comes from it")
        by_category = use_per_category_heatmap or num_categories is not None or per_category_min_object_sizes is not None
        if by_category and categories_in_name is None:
            raise AssertionError(
                "categories_in_name must be provided with use_per_category_heatmap=True, num_categories or per_category_min_object_sizes"
            )
        if by_category and not (num_categories or 0) > 0:
            raise AssertionError(f"num_categories must be a positive integer, not {num_categories!r}")
        if min_object_size is not None and per_category_min_object_sizes is not None:
            raise AssertionError("min_object_size and per_category_min_object_sizes are mutually exclusive")
        if per_category_min_object_sizes is not None and (
            len(per_category_min_object_sizes) != num_categories or any(len(pair) != 2 for pair in per_category_min_object_sizes)
        ):
            raise AssertionError("per_category_min_object_sizes has a pair (height, width) for each of num_categories")
        if len(heatmap_hw) != 2 or min(heatmap_hw) < 1:
            raise AssertionError(f"heatmap_hw is height and width, both positive, not {heatmap_hw!r}")
        self._annotation, self._boxes = annotation_field_name, bboxes_in_name
        self._image, self._hw_field = image_field_name, image_hw_field_name
        self._inputs = {
            "with_labels": categories_in_name if by_category else None,
            "with_valid": is_valid_opt_in_name,
            "with_centers": center_opt_in_name,
        }
        sizes = [min_object_size] if min_object_size is not None else per_category_min_object_sizes or []
        self._arguments: dict[str, Any] = {
            "heatmap_hw": [int(n) for n in heatmap_hw],
            "per_class": use_per_category_heatmap,
            "num_classes": num_categories or 0,
            "min_size": [float(v) for pair in sizes for v in pair],
            "min_area": min_fraction_area_clipping,
            "min_radius": max(float(min_radius), 0.5),
            "max_radius": float(max_radius),
            "radius_factor": float(radius_scaling_factor),
            "sigma_factor": float(radius_to_sigma_factor),
        }
        # Names and types of the fields for the outputs of fn.bbox_heatmap, in the order of these outputs.
        self._outputs = (
            (heatmap_out_name, types.FLOAT),
            (is_active_opt_out_name, types.BOOL),
            (center_opt_out_name, types.INT32),
            (center_offset_opt_out_name, types.FLOAT),
            (height_width_bboxes_heatmap_opt_out_name, types.FLOAT),
            (bboxes_heatmap_opt_out_name, types.FLOAT),
        )

    def _given(self, group: SampleDataGroup) -> dict[str, Name]:
        """Returns the optional inputs of fn.bbox_heatmap that an annotation has: a dict from the argument that enables the input, such as "with_labels", to the
        name of the field. The field is_valid_opt_in_name may be missing; "with_valid" is then left out."""
        return {k: name for k, name in self._inputs.items() if name is not None and (k != "with_valid" or group.has_child(name))}

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        for path in data.find_all_occurrences(self._annotation):
            parent, group = data.get_parent_of_path(path), data.get_item_in_path(path)
            size = image_size(parent[self._image]) if self._image is not None else parent.get_item_in_path(self._hw_field or "")
            given = self._given(group)
            inputs = [group[self._boxes], size, *(group[name] for name in given.values())]
            size_name = self._image if self._image is not None else self._hw_field
            with at_path(place_of(path, [self._boxes, size_name or "", *given.values()])):
                made = fn.bbox_heatmap(*inputs, **dict.fromkeys(given, True), **self._arguments)
            self._add_fields(group, path)
            for (name, _), value in zip(self._outputs, made, strict=True):
                if name is not None:
                    group[name] = value
        return data

    def _add_fields(self, group: SampleDataGroup, path: Sequence[Name]) -> None:
        ragged = group.is_ragged(self._boxes)
        for k, (name, kind) in enumerate(self._outputs):
            if name is None:
                continue
            try:
                group.add_data_field(name, kind, ragged=ragged and k > 0)
            except FieldExistsError as e:
                raise KeyError(
                    f"The annotation at '{path_text(path)}' must not contain the field '{name}', as it is added by this step"
                ) from e

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._annotation, "annotations"):
            parent, group = data_empty.get_parent_of_path(path), data_empty.get_item_in_path(path)
            size = self._image if self._image is not None else self._hw_field
            assert size is not None
            if not parent.has_child(size):
                names = ", ".join(map(str, parent.contained_top_level_field_names))
                raise KeyError(f"For annotation in path '{path_text(path)}', no sibling field '{size}' was found; there are: {names}")
            if not isinstance(group, SampleDataGroup):
                raise ValueError(f"'{path_text(path)}' is a data field, where an annotation is a group of fields")
            for name in [self._boxes, *(n for k, n in self._inputs.items() if n is not None and k != "with_valid")]:
                if not group.has_child(name):
                    names = ", ".join(map(str, group.contained_top_level_field_names))
                    raise KeyError(f"Inside annotation in path '{path_text(path)}', no field '{name}' was found; there are: {names}")
            self._add_fields(group, path)
        return data_empty
