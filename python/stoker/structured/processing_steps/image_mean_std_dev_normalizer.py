# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker import fn, types
from stoker.structured.pipeline.sample_data_group import SampleDataGroup
from stoker.structured.processing_steps.pipeline_step_base import PipelineStepBase, change_fields, find_fields, require_data_field


class ImageMeanStdDevNormalizer(PipelineStepBase):
    """Normalises all images with the given name: (image - mean) / std_dev.

    mean, std_dev: one number, or one for each of three channels, in the order of the image's channels. output_type: FLOAT or FLOAT16.
    """

    def __init__(
        self,
        image_name: str | int,
        mean: Sequence[float] | float,
        std_dev: Sequence[float] | float,
        output_type: Any = types.DALIDataType.FLOAT,
    ) -> None:
        self._image_name = image_name
        self._mean, self._std_dev = _by_channel("mean", mean), _by_channel("std_dev", std_dev)
        if not all(s > 0 for s in self._std_dev):
            raise ValueError(f"Standard deviation must be greater than 0, not {std_dev!r}")
        self._output_type = types.to_dtype(output_type)
        if self._output_type not in (types.FLOAT, types.FLOAT16):
            raise ValueError(f"output_type is FLOAT or FLOAT16, not {self._output_type}")

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        given = {"mean": self._mean, "std": self._std_dev, "dtype": self._output_type, "output_layout": "HWC"}
        change_fields(data, [self._image_name], lambda image: fn.crop_mirror_normalize(image, **given), self._output_type)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        for path in find_fields(data_empty, self._image_name, "images"):
            require_data_field(data_empty, path, "an image")
            data_empty.change_type_of_data_and_remove_data(path, self._output_type)
        return data_empty


def _by_channel(name: str, value: Any) -> list[float]:
    values = np.asarray(value, dtype=np.float32).ravel()
    if values.size not in (1, 3):
        raise ValueError(f"{name} is a number or one for each of three channels, not {value!r}")
    return [float(v) for v in np.broadcast_to(values, 3)]
