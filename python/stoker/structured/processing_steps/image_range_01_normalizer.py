# SPDX-License-Identifier: Apache-2.0
"""ImageRange01Normalizer."""

from __future__ import annotations

from stoker import fn, types
from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field


class ImageRange01Normalizer(PipelineStepBase):
    """Makes all images of one name float32 and divides them by 255."""

    def __init__(self, image_name: str | int) -> None:
        self._image_name = image_name

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        given = {"mean": [0.0] * 3, "std": [255.0] * 3, "dtype": types.FLOAT, "output_layout": "HWC"}
        change_fields(data, [self._image_name], lambda image: fn.crop_mirror_normalize(image, **given), types.FLOAT)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            require_data_field(data_empty, path, "an image")
            data_empty.change_type_of_data_and_remove_data(path, types.FLOAT)
        return data_empty
