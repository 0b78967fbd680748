# SPDX-License-Identifier: Apache-2.0
"""BEVBBoxesTransformer3D."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn
from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps._images import names_of
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field

Names = str | int | Sequence[str | int] | None


class BEVBBoxesTransformer3D(PipelineStepBase):
    """Transforms a scene at random: a rotation, then a scaling, then a translation; boxes, and the matrices that lead to and from it, follow.

    Fields by what they hold: points (x, y, z), velocities (vx, vy, vz; they are not translated), sizes (only scaled), orientations (radians, between -pi and pi,
    which the rotation's angle is added to); matrices that take points of the scene elsewhere, as projections, extrinsics and ego_to_world, which get the
    inverse from the right; and world_to_ego, which gets the transform from the left.

    rotation_range: least and largest angle, in radians, about rotation_axis (0 is x, 1 is y, 2 is z). scaling_range: least and largest factor.
    translation_max_abs: how far along x, y and z, at most. None leaves a part out: fields that only this part would change stay as they are.
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
