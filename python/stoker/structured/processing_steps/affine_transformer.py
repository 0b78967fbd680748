# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any

from stoker import fn, types
from stoker._where import at_path
from stoker.data_node import DataNode
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps._images import image_size, names_of, on_gpu, typed_constant
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field

Names = str | int | Sequence[str | int] | None


class AffineTransformer(PipelineStepBase):
    """Transforms images at random and resizes them to `output_hw`. Applies the same transformation to projection matrices, points and boxes.

    One random matrix is drawn for all fields of a sample, and each image is resampled once. All images of a sample must therefore have the same size. To
    draw a matrix for each camera, wrap the step in DataGroupArrayInPathElementsAppliedStep.

    transformation_steps: changes that are applied in order, each with its probability. They move the image within a frame of the image's size; rotations,
    scalings and shears have the frame's centre as their origin. Parts of the image outside of the frame are cut off; parts of the frame that the image does
    not cover are 0.
    output_hw: height and width of the result. resizing_mode: how the frame is resized to it. STRETCH scales height and width by different factors; PAD and
    CROP scale both by one factor. With PAD the whole frame is visible and the rest is 0; with CROP the frame fills the output and is cut. resizing_anchor:
    which part of the frame keeps its position with PAD and CROP; None with STRETCH.
    image_field_names: names of images (HWC). image_hw_field_names: names of fields with the height and width of images that are not transformed themselves;
    these fields become output_hw. Exactly one of the two must be given.
    projection_matrix_field_names: names of matrices (float32 or float64, with 3 or 4 rows) that map points to pixels; if the data has intrinsics and
    extrinsics, name the intrinsics. point_field_names: names of fields with points in pixels, (x, y) or several points in a row.
    transform_image_on_gpu: whether images in host memory are moved to the GPU first, if the pipeline has one. bbox_field_names (not in ACCV-Lab): names of
    fields with boxes (left, top, right, bottom) in pixels. They keep this order even if the image is flipped. If it is turned or sheared, a box becomes the
    smallest upright box around its four corners.
    """

    class TransformationStep(ABC):
        """A change of the image that is applied with probability `prob`."""

        def __init__(self, prob: float) -> None:
            if not 0 <= prob <= 1:
                raise ValueError(f"{type(self).__name__}: prob is a probability, not {prob!r}")
            self.prob = prob

        @abstractmethod
        def values(self) -> list[float]:
            """Returns the number that fn.affine_augmentation uses for this kind of step, followed by the step's parameters."""

        def numbers(self) -> list[float]:
            """Returns the step in the form of fn.affine_augmentation's argument `steps`: kind, probability, number of parameters, parameters."""
            kind, *values = self.values()
            return [kind, self.prob, len(values), *values]

        def check_prev_types_compatible_and_add_current_type(self, prev_types: set[type]) -> set[type]:
            """Returns prev_types, the types of the steps before this one, with this step's type. Raises ValueError if this step cannot follow one of those."""
            return {*prev_types, type(self)}

    class _Aligning(TransformationStep):
        """Base of steps that align an edge of the image. They cannot follow rotations and shears, which turn the edges."""

        def check_prev_types_compatible_and_add_current_type(self, prev_types: set[type]) -> set[type]:
            for before in (AffineTransformer.Rotation, AffineTransformer.Shearing):
                if before in prev_types:
                    raise ValueError(f"Cannot perform `{type(self).__name__}` if rotation or shearing are (potentially) performed before")
            return {*prev_types, type(self)}

    class Translation(TransformationStep):
        """Moves the image by a random number of pixels between min_xy and max_xy along x and y; without max_xy, by min_xy."""

        def __init__(self, prob: float, min_xy: Sequence[float], max_xy: Sequence[float] | None = None) -> None:
            super().__init__(prob)
            self.min_xy, self.max_xy = min_xy, max_xy

        def values(self) -> list[float]:
            return [0, *_ranges(self, self.min_xy, self.max_xy)]

    class ShiftInsideOriginalImage(_Aligning):
        """Moves an image that is larger than the frame to a random position in which it still fills the frame, along x if shift_x and along y if shift_y. Does
        not move smaller images."""

        def __init__(self, prob: float, shift_x: bool, shift_y: bool) -> None:
            super().__init__(prob)
            self.shift_x, self.shift_y = shift_x, shift_y

        def values(self) -> list[float]:
            return [1, float(self.shift_x), float(self.shift_y)]

    class ShiftToAlignWithOriginalImageBorder(_Aligning):
        """Moves the image so that its side `border` coincides with this side of the frame."""

        class Border(Enum):
            """Sides of the frame."""

            TOP = 0
            LEFT = 1
            BOTTOM = 2
            RIGHT = 3

        def __init__(self, prob: float, border: AffineTransformer.ShiftToAlignWithOriginalImageBorder.Border) -> None:
            super().__init__(prob)
            if not isinstance(border, self.Border):
                raise ValueError(f"border is one of {', '.join(map(str, self.Border))}, not {border!r}")
            self._border = border

        def values(self) -> list[float]:
            return [2, self._border.value]

    class Rotation(TransformationStep):
        """Turns the image anticlockwise by a random angle between min_rot and max_rot degrees; without max_rot, by min_rot."""

        def __init__(self, prob: float, min_rot: float, max_rot: float | None = None) -> None:
            super().__init__(prob)
            self.min_rot, self.max_rot = min_rot, max_rot

        def values(self) -> list[float]:
            return [3, *_ranges(self, [self.min_rot], None if self.max_rot is None else [self.max_rot])]

    class UniformScaling(TransformationStep):
        """Scales the image by a random factor between min_scaling and max_scaling; without max_scaling, by min_scaling."""

        def __init__(self, prob: float, min_scaling: float, max_scaling: float | None = None) -> None:
            super().__init__(prob)
            self.min_scaling, self.max_scaling = min_scaling, max_scaling

        def values(self) -> list[float]:
            return [4, *_ranges(self, [self.min_scaling], None if self.max_scaling is None else [self.max_scaling])]

    class NonUniformScaling(TransformationStep):
        """Scales x and y by two random factors between min_scaling_xy and max_scaling_xy; without max_scaling_xy, by min_scaling_xy."""

        def __init__(self, prob: float, min_scaling_xy: Sequence[float], max_scaling_xy: Sequence[float] | None = None) -> None:
            super().__init__(prob)
            self.min_scaling_xy, self.max_scaling_xy = min_scaling_xy, max_scaling_xy

        def values(self) -> list[float]:
            return [4, *_ranges(self, self.min_scaling_xy, self.max_scaling_xy)]

    class Shearing(TransformationStep):
        """Shears the image along x and y by random angles between min_shearing_xy and max_shearing_xy, in degrees; without max_shearing_xy, by
        min_shearing_xy."""

        def __init__(self, prob: float, min_shearing_xy: Sequence[float], max_shearing_xy: Sequence[float] | None = None) -> None:
            super().__init__(prob)
            self.min_shearing_xy, self.max_shearing_xy = min_shearing_xy, max_shearing_xy

        def values(self) -> list[float]:
            return [5, *_ranges(self, self.min_shearing_xy, self.max_shearing_xy)]

    class Selection(TransformationStep):
        """Applies one of several options, drawn by option_probs, which add up to 1. options: steps, or sequences of steps."""

        def __init__(self, prob: float, option_probs: Sequence[float], options: Sequence[Any]) -> None:
            super().__init__(prob)
            if len(option_probs) != len(options):
                raise AssertionError(
                    f"Number of per-option probabilities and options does not match: {len(option_probs)} and {len(options)}"
                )
            if abs(sum(option_probs) - 1) > 1e-6:
                raise AssertionError(f"Probabilities for options do not sum up to 1, but to {sum(option_probs)}")
            self._probs = list(option_probs)
            self._options = [[o] if isinstance(o, AffineTransformer.TransformationStep) else list(o) for o in options]

        def values(self) -> list[float]:
            made: list[float] = [6]
            for k, (prob, option) in enumerate(zip(self._probs, self._options, strict=True)):
                steps = [n for step in option for n in step.numbers()]
                # The last option gets 1.0, so that one is chosen even if the probabilities add up to a little less than 1 after rounding.
                made += [prob if k + 1 < len(self._probs) else 1.0, len(steps), *steps]
            return made

        def check_prev_types_compatible_and_add_current_type(self, prev_types: set[type]) -> set[type]:
            together = set(prev_types)
            for option in self._options:
                types_so_far = set(prev_types)
                for step in option:
                    types_so_far = step.check_prev_types_compatible_and_add_current_type(types_so_far)
                together |= types_so_far
            return together

    class ResizingMode(Enum):
        """Ways to resize the frame to an output of another aspect ratio; the argument resizing_mode of AffineTransformer."""

        STRETCH = 0
        PAD = 1
        CROP = 2

    class ResizingAnchor(Enum):
        """Parts of the frame that may keep their position with PAD and CROP; the argument resizing_anchor of AffineTransformer."""

        CENTER = 0
        TOP_OR_LEFT = 1
        BOTTOM_OR_RIGHT = 2

    def __init__(
        self,
        output_hw: Sequence[int],
        resizing_mode: AffineTransformer.ResizingMode,
        resizing_anchor: AffineTransformer.ResizingAnchor | None = None,
        image_field_names: Names = None,
        image_hw_field_names: Names = None,
        projection_matrix_field_names: Names = None,
        point_field_names: Names = None,
        transformation_steps: Sequence[AffineTransformer.TransformationStep] | None = None,
        transform_image_on_gpu: bool = True,
        bbox_field_names: Names = None,
    ) -> None:
        self._images, self._sizes = names_of(image_field_names), names_of(image_hw_field_names)
        if bool(self._images) == bool(self._sizes):
            which = (
                "Only one of 'image_field_names' or 'image_hw_field_names' can be set"
                if self._images
                else ("Either 'image_field_names' or 'image_hw_field_names' must be provided")
            )
            raise ValueError(f"{which}: the size of the images comes from it")
        if not isinstance(resizing_mode, self.ResizingMode):
            raise ValueError(f"resizing_mode is one of {', '.join(map(str, self.ResizingMode))}, not {resizing_mode!r}")
        if (resizing_mode is self.ResizingMode.STRETCH) != (resizing_anchor is None):
            raise ValueError(
                "When using STRETCH resizing mode, `resizing_anchor` has to be set to `None`"
                if resizing_anchor is not None
                else "When not using STRETCH resizing mode, a `resizing_anchor` has to be selected"
            )
        self._matrices, self._points = names_of(projection_matrix_field_names), names_of(point_field_names)
        self._boxes = names_of(bbox_field_names)
        self._output_hw = [int(n) for n in output_hw]
        self._mode, self._anchor = resizing_mode, resizing_anchor
        self._steps: list[float] = []
        before: set[type] = set()
        for step in transformation_steps or []:
            before = step.check_prev_types_compatible_and_add_current_type(before)
            self._steps += [float(n) for n in step.numbers()]
        self._on_gpu = transform_image_on_gpu

    def _transform(self, data: SampleDataGroup) -> DataNode:
        sizes: list[DataNode] = []
        for path in _paths(data, self._images or self._sizes):
            field = data.get_item_in_path(path)
            with at_path(path_text(path)):
                sizes.append(image_size(field) if self._images else field)
        with at_path(", ".join(map(path_text, _paths(data, self._images or self._sizes)))):
            matrix: DataNode = fn.affine_augmentation(
                *sizes,
                steps=self._steps,
                output_hw=self._output_hw,
                mode=self._mode.name.lower(),
                anchor=(self._anchor or self.ResizingAnchor.CENTER).name.lower(),
            )
        return matrix

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        transform = self._transform(data)

        def warp(image: DataNode) -> Any:
            given = on_gpu(image, self._on_gpu)
            return fn.warp_affine(
                given, transform, size=self._output_hw, interp_type=types.INTERP_LINEAR, fill_value=0.0, inverse_map=False
            )

        change_fields(data, self._images, warp)
        change_fields(data, self._matrices, lambda matrix: fn.transform_matrix(matrix, transform))
        for path in _paths(data, [*self._points, *self._boxes]):
            kind, points = data.get_type_of_item_in_path(path), data.get_item_in_path(path)
            with at_path(path_text(path)):
                given = points if kind == types.FLOAT else fn.cast(points, dtype=types.FLOAT)
                moved = fn.affine_points(given, transform, boxes=path[-1] in self._boxes)
                data.set_item_in_path(path, moved if kind == types.FLOAT else fn.cast(moved, dtype=kind))
        for path in _paths(data, self._sizes):
            kind = SampleDataGroup.get_numpy_type_for_dali_type(data.get_type_of_item_in_path(path))
            data.set_item_in_path(path, typed_constant(self._output_hw, kind))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        wanted = (
            (self._images, "images"),
            (self._sizes, "image sizes"),
            (self._matrices, "projection matrices"),
            (self._points, "point sets"),
            (self._boxes, "bounding boxes"),
        )
        for names, what in wanted:
            for name in names:
                for path in find_fields(data_empty, name, what):
                    require_data_field(data_empty, path, "a data field")
        return data_empty


def _paths(data: SampleDataGroup, names: Sequence[str | int]) -> list[tuple[str | int, ...]]:
    return list(dict.fromkeys(path for name in names for path in data.find_all_occurrences(name)))


def _ranges(step: Any, least: Sequence[float], most: Sequence[float] | None) -> list[float]:
    """Returns [least[0], most[0], least[1], ...], with `least` for `most` if `most` is None. Raises ValueError if the two differ in length, or if a
    bound in `least` is above the one in `most`."""
    found = []
    for a, b in zip(least, least if most is None else most, strict=True):
        if a > b:
            raise ValueError(f"{type(step).__name__}: the range from {a} to {b} is empty")
        found += [float(a), float(b)]
    return found
