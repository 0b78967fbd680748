# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, types
from stoker.data_node import DataNode
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps._images import on_gpu
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields


class PhotoMetricDistorter(PipelineStepBase):
    """Changes brightness, contrast, saturation, hue and the order of the channels of all images with the given name. All images of a sample are changed in the
    same way.

    Each change is made with its probability prob_*, and its size is drawn between the two values of min_max_*. min_max_brightness: a number that is added to
    the pixels; uint8 images have values from 0 to 255, float32 images from 0 to 1. min_max_hue: degrees. min_max_contrast, min_max_saturation: factors. The
    contrast is changed before or after saturation and hue, each with probability 0.5. is_bgr: whether the order of the channels is blue, green, red.
    enforce_process_on_gpu: whether images in host memory are moved to the GPU first, if the pipeline has one.
    """

    def __init__(
        self,
        image_name: str | int,
        min_max_brightness: Sequence[float],
        min_max_hue: Sequence[float],
        min_max_contrast: Sequence[float],
        min_max_saturation: Sequence[float],
        prob_brightness_aug: float = 0.5,
        prob_hue_aug: float = 0.5,
        prob_contrast_aug: float = 0.5,
        prob_saturation_aug: float = 0.5,
        prob_swap_channels: float = 0.5,
        is_bgr: bool = False,
        enforce_process_on_gpu: bool = True,
    ) -> None:
        self._image_name = image_name
        self._drawn = {
            "brightness": [float(v) for v in min_max_brightness],
            "hue": [float(v) for v in min_max_hue],
            "contrast": [float(v) for v in min_max_contrast],
            "saturation": [float(v) for v in min_max_saturation],
            "p_brightness": prob_brightness_aug,
            "p_hue": prob_hue_aug,
            "p_contrast": prob_contrast_aug,
            "p_saturation": prob_saturation_aug,
            "p_channels": prob_swap_channels,
        }
        self._is_bgr = is_bgr
        self._on_gpu = enforce_process_on_gpu

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        drawn = fn.photometric_augmentation(**self._drawn)

        def distort(image: DataNode) -> Any:
            return fn.photometric_distortion(on_gpu(image, self._on_gpu), drawn, bgr=self._is_bgr)

        change_fields(data, [self._image_name], distort)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            kind = data_empty.get_type_of_item_in_path(path)
            if kind not in (types.UINT8, types.FLOAT):
                raise ValueError(f"Image type {kind} not supported: '{path_text(path)}' has to be UINT8 or FLOAT")
        return data_empty
