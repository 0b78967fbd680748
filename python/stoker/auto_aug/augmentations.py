# SPDX-License-Identifier: Apache-2.0
"""The augmentations of AutoAugment, RandAugment and TrivialAugment, for uint8 images (HWC) and sequences of such images (FHWC).

my_shear_x = shear_x.augmentation(mag_range=(0, 0.5))     # an augmentation with another range
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker import fn, types
from stoker.auto_aug.core import augmentation
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError

# ---- parameters of magnitudes ----


def warp_x_param(magnitude: Any) -> Any:
    """Converts a magnitude to the parameter of a warp along x: [magnitude, 0]."""
    return np.array([magnitude, 0], np.float32)


def warp_y_param(magnitude: Any) -> Any:
    """Converts a magnitude to the parameter of a warp along y: [0, magnitude]."""
    return np.array([0, magnitude], np.float32)


def shift_enhance_range(magnitude: Any) -> Any:
    """Converts a magnitude from -1 to 1 to a factor from 0 to 2."""
    return 1 + magnitude


def sharpness_kernel(magnitude: Any) -> Any:
    """Returns the 3 x 3 window of a filter that sharpens (magnitude up to 1) or smooths (down to -1). With 0 the filter changes nothing."""
    smooth = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    same = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)
    return (1 + magnitude) * same - magnitude * smooth


def sharpness_kernel_shifted(magnitude: Any) -> Any:
    """Returns the 3 x 3 window of a filter for a magnitude from 0 (smooths) to 2 (sharpens). With 1 the filter changes nothing."""
    return sharpness_kernel(magnitude - 1)


def poster_mask_uint8(magnitude: Any) -> Any:
    """Returns a mask that keeps the leading bits of a byte. Their number is the magnitude, rounded and limited to 1..8."""
    bits = min(max(int(np.round(magnitude)), 1), 8)
    return np.array(0xFF << (8 - bits) & 0xFF, np.uint8)


def solarize_add_shift(shift: Any) -> Any:
    """Converts the shift for dark pixels to uint8. Raises InvalidArgumentError from 128 on."""
    if shift >= 128:
        raise InvalidArgumentError("The solarize_add augmentation accepts shifts from 0 to 128")
    return np.array(shift).astype(np.uint8)


# ---- geometry ----


def _warped(data: DataNode, matrix: DataNode, fill_value: Any, interp_type: Any) -> Any:
    """Warps the image. matrix: maps points of the image to points of the result."""
    return fn.warp_affine(data, matrix=matrix, fill_value=fill_value, interp_type=interp_type, inverse_map=False)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_x_param)
def shear_x(data: DataNode, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shears the image along x: each row moves by its y coordinate times a factor."""
    return _warped(data, fn.transforms.shear(shear=shear), fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=warp_y_param)
def shear_y(data: DataNode, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Shears the image along y: each column moves by its x coordinate times a factor."""
    return _warped(data, fn.transforms.shear(shear=shear), fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_x_param)
def translate_x(data: DataNode, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Moves the image along x by a share of its width. shape: height and width."""
    return _warped(data, fn.transforms.translation(offset=rel_offset * shape[1]), fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_x_param, name="translate_x")
def translate_x_no_shape(data: DataNode, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Moves the image along x by a number of pixels."""
    return _warped(data, fn.transforms.translation(offset=offset), fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True, mag_to_param=warp_y_param)
def translate_y(data: DataNode, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Moves the image along y by a share of its height. shape: height and width."""
    return _warped(data, fn.transforms.translation(offset=rel_offset * shape[0]), fill_value, interp_type)


@augmentation(mag_range=(0, 250), randomly_negate=True, mag_to_param=warp_y_param, name="translate_y")
def translate_y_no_shape(data: DataNode, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    """Moves the image along y by a number of pixels."""
    return _warped(data, fn.transforms.translation(offset=offset), fill_value, interp_type)


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(data: DataNode, angle: Any, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True) -> Any:
    """Rotates the image counter-clockwise. angle: in degrees. rotate_keep_size: whether the result has the size of the image."""
    return fn.rotate(data, angle=angle, fill_value=fill_value, interp_type=interp_type, keep_size=rotate_keep_size)


# ---- colour ----


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(data: DataNode, parameter: Any) -> Any:
    """Multiplies the values by a factor."""
    return fn.brightness(data, brightness=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def contrast(data: DataNode, parameter: Any) -> Any:
    """Multiplies the difference between each value and the image's mean luma by a factor."""
    luma = types.Constant(np.array([0.299, 0.587, 0.114], np.float32), device=data.device)
    means = fn.reductions.mean(data, axis_names="HW", keep_dims=True)
    centre = fn.reductions.sum(means * luma, axis_names="C", keep_dims=True)
    return fn.cast_like((data - centre) * parameter + centre, data)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def color(data: DataNode, parameter: Any) -> Any:
    """Multiplies the difference between each channel of a pixel and the pixel's gray value by a factor."""
    return fn.saturation(data, saturation=parameter)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel, param_device="auto")
def sharpness(data: DataNode, kernel: Any) -> Any:
    """Sharpens or smooths the image: the filter multiplies the difference from the smoothed image by a factor. The image is mirrored at its edges; Pillow
    leaves the outermost pixels unchanged instead."""
    return fn.experimental.filter(data, kernel)


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8, param_device="auto")
def posterize(data: DataNode, mask: Any) -> Any:
    """Keeps the bits of each value that are set in the mask, and clears the others."""
    return data & mask


def _inverted(data: DataNode) -> Any:
    return types.Constant(255, dtype=types.UINT8) - data


def _either(mask: DataNode, yes: Any, no: Any) -> Any:
    """Takes each value from `yes` where the mask, of bools, is true, else from `no`. `yes` and `no` are uint8."""
    return mask * yes + (mask ^ True) * no


@augmentation(mag_range=(256, 0), param_device="auto")
def solarize(data: DataNode, threshold: Any) -> Any:
    """Inverts the values that are at least the threshold."""
    return _either(data < threshold, data, _inverted(data))


@augmentation(mag_range=(0, 110), param_device="auto", mag_to_param=solarize_add_shift)
def solarize_add(data: DataNode, shift: Any) -> Any:
    """Adds the shift to values below 128, and leaves other values unchanged."""
    return _either(data < types.Constant(128, dtype=types.UINT8), data + shift, data)


@augmentation
def invert(data: DataNode, _: Any) -> Any:
    """Inverts the image: each value becomes 255 - value."""
    return _inverted(data)


@augmentation
def equalize(data: DataNode, _: Any) -> Any:
    """Equalizes the histogram of each channel, with OpenCV's rounding."""
    return fn.experimental.equalize(data)


@augmentation
def auto_contrast(data: DataNode, _: Any) -> Any:
    """Scales the values of each channel to the range 0 to 255. A channel with equal values is not changed."""
    low = fn.reductions.min(data, axis_names="HW", keep_dims=True)
    high = fn.reductions.max(data, axis_names="HW", keep_dims=True)
    varies = high > low
    extent = _either(varies, high - low, types.Constant(255, dtype=types.UINT8))
    return fn.cast_like((data - low * varies) * (255 / extent), data)


@augmentation
def identity(data: DataNode, _: Any) -> Any:
    """Returns the image unchanged."""
    return data
