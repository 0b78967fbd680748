# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn
from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps._images import names_of
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field

Names = str | int | Sequence[str | int] | None


class BEVBBoxesTransformer3D(PipelineStepBase):
    """Transforms a 3D scene by a random rotation, scaling and translation, in this order, and changes all fields that describe the scene accordingly.

    The names of the fields, by kind (each a name, a sequence of names or None):
    - points: (x, y, z).
    - velocities: (vx, vy, vz). They are rotated and scaled, but not translated.
    - sizes: extents of boxes. They are only scaled.
    - orientation: angles in radians. The angle of the rotation is added, and the result lies between -pi and pi.
    - proj_matrices_and_extrinsics, ego_to_world: matrices that map points of the scene to other coordinates. They are multiplied by the inverse transform
      from the right.
    - world_to_ego: matrices that map points to the scene. They are multiplied by the transform from the left.

    rotation_range: smallest and largest angle, in radians, about rotation_axis (0 is x, 1 is y, 2 is z). scaling_range: smallest and largest factor.
    translation_max_abs: the largest translation along x, y and z, in either direction. A part of the transform whose argument is `None` is left out.
    """

    def __init__(
        self,
        data_field_names_points: Names,
        data_field_names_velocities: Names,
        data_field_names_sizes: Names,
        data_field_names_orientation: Names,
        data_field_names_proj_matrices_and_extrinsics: Names,
        data_field_names_ego_to_world: Names,
        data_field_names_world_to_ego: Names,
        rotation_range: Sequence[float] | None,
        rotation_axis: int | None,
        scaling_range: Sequence[float] | None,
        translation_max_abs: Sequence[float] | None,
    ) -> None:
        self._points = names_of(data_field_names_points)
        self._velocities = names_of(data_field_names_velocities)
        self._sizes = names_of(data_field_names_sizes)
        self._orientation = names_of(data_field_names_orientation)
        self._from_scene = names_of(data_field_names_proj_matrices_and_extrinsics) + names_of(data_field_names_ego_to_world)
        self._to_scene = names_of(data_field_names_world_to_ego)
        if not self._all_names():
            raise AssertionError("At least one kind of data field name must be set")
        self._drawn: dict[str, Any] = {}
        if rotation_range is not None:
            if rotation_axis is None:
                raise AssertionError("If `rotation_range` is set, `rotation_axis` needs to be set too")
            self._drawn = {"rotation": _floats("rotation_range", rotation_range, 2), "axis": rotation_axis}
        if scaling_range is not None:
            self._drawn["scaling"] = _floats("scaling_range", scaling_range, 2)
        if translation_max_abs is not None:
            self._drawn["translation"] = _floats("translation_max_abs", translation_max_abs, 3)

    def _all_names(self) -> list[str | int]:
        return self._points + self._velocities + self._sizes + self._orientation + self._from_scene + self._to_scene

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        if not self._drawn:
            return data
        transform, angle, scale = fn.bev_augmentation(**self._drawn)
        turns, scales = "rotation" in self._drawn, "scaling" in self._drawn
        for names, moved, change in (
            (self._points, True, lambda field: fn.affine_points(field, transform)),
            (self._velocities, turns or scales, lambda field: fn.affine_points(field, transform, linear=True)),
            (self._sizes, scales, lambda field: field * scale),
            (self._orientation, turns, lambda field: fn.wrap_angle(field, angle)),
            (self._from_scene, True, lambda field: fn.transform_matrix(field, transform, side="right", inverse=True)),
            (self._to_scene, True, lambda field: fn.transform_matrix(field, transform)),
        ):
            if moved:
                change_fields(data, names, change)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for name in self._all_names():
            for path in find_fields(data_empty, name, "fields", ValueError):
                require_data_field(data_empty, path, "a data field")
        return data_empty


def _floats(name: str, values: Sequence[float], count: int) -> list[float]:
    if len(values) != count:
        raise AssertionError(f"If `{name}` is set, it must have {count} elements, not {len(values)}")
    return [float(v) for v in values]
