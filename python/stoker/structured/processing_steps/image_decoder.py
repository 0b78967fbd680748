# SPDX-License-Identifier: Apache-2.0
"""ImageDecoder."""

from __future__ import annotations

from stoker import fn, types
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields


class ImageDecoder(PipelineStepBase):
    """Decodes all images of one name: the bytes of files become HWC images of uint8.

    use_device_mixed: they are decoded to the GPU (in a pipeline that has one). hw_decoder_load has no meaning here. as_bgr: channels are blue, green, red.
    """

    def __init__(self, image_name: str, use_device_mixed: bool, hw_decoder_load: float = 0.65, as_bgr: bool = False) -> None:
        self._image_name = image_name
        self._use_device_mixed = use_device_mixed
        self._as_bgr = as_bgr

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        device, kind = "mixed" if self._use_device_mixed else "cpu", types.BGR if self._as_bgr else types.RGB
        change_fields(data, [self._image_name], lambda file: fn.decoders.image(file, device=device, output_type=kind))
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            kind = data_empty.get_type_of_item_in_path(path)
            if kind != types.UINT8:
                raise ValueError(f"Image data at path '{path_text(path)}' is of {kind}: the bytes of a file, of type UINT8, are decoded")
        return data_empty
