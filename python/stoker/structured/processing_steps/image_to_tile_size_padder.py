# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence

from stoker import fn
from stoker.data_node import DataNode
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
        change_fields(data, [self._image_name], lambda image: fn.pad(image, axes=_height_and_width(image), shape=[1, 1], align=self._tile))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            require_data_field(data_empty, path, "an image")
        return data_empty


def _height_and_width(image: DataNode) -> list[int]:
    """Returns the dims of an image that are its height and its width. An image without a layout is taken for HWC."""
    layout = image._builder.describe(image.ref)[3]
    return [layout.index("H"), layout.index("W")] if "H" in layout and "W" in layout else [-3, -2]
