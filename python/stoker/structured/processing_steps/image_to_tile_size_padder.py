# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import fn
from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field


class ImageToTileSizePadder(PipelineStepBase):
    """Pads all images with the given name with zeros on the right and at the bottom, so that height and width are multiples of a tile's height and width.
    tile_size_to_pad_to: one number for both, or (width, height), in pixels."""

    def __init__(self, image_name: str | int, tile_size_to_pad_to: int | Sequence[int]) -> None:
        self._image_name = image_name
        width, height = tile_size_to_pad_to if isinstance(tile_size_to_pad_to, Sequence) else (tile_size_to_pad_to,) * 2
        if width < 1 or height < 1:
            raise AssertionError(f"Tile size must be greater than 0, not {tile_size_to_pad_to!r}; 1 keeps a size as it is")
        self._tile = [int(height), int(width)]

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        # `shape` is the smallest extent that the result may have. Without it, fn.pad would pad to the largest image of the batch, and each sample would wait
        # for all others.
        change_fields(data, [self._image_name], lambda image: fn.pad(image, axes=[-3, -2], shape=[1, 1], align=self._tile))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            require_data_field(data_empty, path, "an image")
        return data_empty
