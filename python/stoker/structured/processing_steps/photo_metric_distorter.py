# SPDX-License-Identifier: Apache-2.0
"""PhotoMetricDistorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import fn, types
from stoker.data_node import DataNode
from stoker.structured.pipeline.sample_data_group import SampleDataGroup, path_text
from stoker.structured.processing_steps._images import on_gpu
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields


class PhotoMetricDistorter(PipelineStepBase):
    """Changes brightness, contrast, saturation, hue and the order of channels of all images of one name, of all of them alike.

    Each change is made with its probability. min_max_brightness: what is added, of 255 for images of uint8, of 1 for those of float32 (whose values lie between
    0 and 1). min_max_hue: degrees. min_max_contrast, min_max_saturation: factors. Contrast comes before saturation and hue, or after them, with equal chances.
    is_bgr: channels are blue, green and red. enforce_process_on_gpu: in a pipeline that has a GPU.
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
