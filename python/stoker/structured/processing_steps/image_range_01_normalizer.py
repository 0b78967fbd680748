# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from stoker.structured.processing_steps.image_mean_std_dev_normalizer import ImageMeanStdDevNormalizer


class ImageRange01Normalizer(ImageMeanStdDevNormalizer):
    """Converts all images with the given name to float32 and divides them by 255."""

    def __init__(self, image_name: str | int) -> None:
        super().__init__(image_name, 0.0, 255.0)
