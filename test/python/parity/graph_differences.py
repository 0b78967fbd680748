# SPDX-License-Identifier: Apache-2.0
"""Intended differences that random graphs find, each with the sentence of doc/parity.md that describes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from graph_program import Program, Ref, Step
from harness import Batch, Name


@dataclass(frozen=True)
class Difference:
    """A kind of difference. `kind`, `op` and `why` are regular expressions. `why` matches the comparison's message, or that of the library that refuses."""

    kind: str
    op: str
    why: str
    sentence: str
    when: Callable[[Step, list[Batch]], bool] = lambda step, inputs: True


def _kind(inputs: list[Batch]) -> str:
    return inputs[0].samples[0].dtype.kind if inputs else ""


def _integers(step: Step, inputs: list[Batch]) -> bool:
    return _kind(inputs) in ("i", "u")


def _not_finite(step: Step, inputs: list[Batch]) -> bool:
    return any(s.dtype.kind == "f" and not np.isfinite(s).all() for b in inputs for s in b.samples)


def _floats_to_integers(step: Step, inputs: list[Batch]) -> bool:
    return _kind(inputs) == "f" and isinstance(step.kwargs.get("dtype"), Name)


def _ties_of_halves(step: Step, inputs: list[Batch]) -> bool:
    def has_tie(values: np.ndarray) -> bool:
        half = values.astype(np.float16)
        return bool((2 * np.abs(values.astype(np.float64) - half.astype(np.float64)) == np.spacing(np.abs(half)).astype(np.float64)).any())

    return repr(step.kwargs.get("dtype")) == "FLOAT16" and any(has_tie(s) for b in inputs for s in b.samples)


def _ycbcr_to_more(step: Step, inputs: list[Batch]) -> bool:
    return repr(step.kwargs.get("output_type")) == "YCbCr" and repr(step.kwargs.get("dtype", "UINT8")) != "UINT8"


def _other_than_hwc(step: Step, inputs: list[Batch]) -> bool:
    return inputs[0].layout not in ("HWC", None) or inputs[0].samples[0].ndim != 3


def _below_zero(step: Step, inputs: list[Batch]) -> bool:
    return re.search(r"[<>=]", step.expression) is not None and (
        "-2" in step.expression or any((s < 0).any() for b in inputs for s in b.samples)
    )


def _empty(step: Step, inputs: list[Batch]) -> bool:
    return any(not s.size for b in inputs for s in b.samples)


def _many_turns(step: Step, inputs: list[Batch]) -> bool:
    angle = step.kwargs.get("angle", 0.0)
    by_sample = [float(np.max(np.abs(s), initial=0)) for b in inputs for s in b.samples] if isinstance(angle, Ref) else [abs(angle)]
    return max(by_sample) > 1e4


def _size_by_sample(step: Step, inputs: list[Batch]) -> bool:
    return isinstance(step.kwargs.get("size"), Ref)


def _negative_fill(step: Step, inputs: list[Batch]) -> bool:
    fill = step.kwargs.get("fill_value", 0.0)
    return _kind(inputs) in ("i", "u") and (isinstance(fill, Ref) or np.min(fill) < 0 or np.max(fill) > 255)


def _integers_but_bytes(step: Step, inputs: list[Batch]) -> bool:
    return _kind(inputs) in ("i", "u") and inputs[0].samples[0].dtype != "uint8"


def _other_than_bytes(step: Step, inputs: list[Batch]) -> bool:
    return inputs[0].samples[0].dtype != "uint8"


def _nearest_along_one(step: Step, inputs: list[Batch]) -> bool:
    given = [repr(step.kwargs[k]) for k in ("min_filter", "mag_filter") if k in step.kwargs]
    return "NN" in given and given != ["NN", "NN"]


def _one_pixel(step: Step, inputs: list[Batch]) -> bool:
    return any(s.shape[:2] == (1, 1) for s in inputs[0].samples)


def _hardly_varies(step: Step, inputs: list[Batch]) -> bool:
    """Returns whether some sample of the first input is nearly constant, as a whole or along an axis."""
    wide = [s.astype(np.float64) for s in inputs[0].samples if s.size]
    return any(np.min(np.ptp(x, axis=axis)) < 0.01 * np.abs(x).max() for x in wide for axis in (None, *range(x.ndim)))


def _with_fraction(step: Step, inputs: list[Batch]) -> bool:
    fill = step.kwargs.get("fill_value", 0)
    return _kind(inputs) in ("i", "u") and isinstance(fill, float) and fill != round(fill)


MORE = (
    "Stoker also accepts images of two dims and of all types, bool, float16 and float64 where the operator can compute with them, layouts of matrices,"
    " arguments by sample of any numeric type, and for all axes one value or a flat list of them."
)
NAMED = "Axes may be named without a layout if the number of dims determines it (DALI wants the layout)."
BOXES = "`bb_flip`, `bbox_paste`, `bbox_rotate` and `box_encoder` want boxes in rows of four values (DALI reads any tensor four values at a time)."
MEANS = (
    "`reductions.std_dev` and `variance` want one mean for each result, or one for all (DALI reads past the end of a mean that has fewer)."
)
NEGATIVE = "`bbox_rotate` and `random_bbox_crop` refuse boxes"
FLAGS = (
    "Flags are 0 or 1, and positions of `bbox_paste` from 0 to 1 like those of `paste`. Arguments are checked even if they change nothing, such as "
    "`crop_pos_z` for images (DALI accepts any number)."
)
EMPTY = (
    "The same rules hold for tensors without elements as for all others (in DALI, some operators check them less, refuse them, or give them no "
    "channels)."
)
PER_CHANNEL = (
    "There must be one value for each channel of the image; the same holds for n_channels of `paste` (DALI reads and writes memory next to the pixels,"
    " or leaves out the rest)."
)
BELOW_ZERO = "Negative integers are compared with floats and with unsigned integers by value (DALI says that -4 < -2 is false if one of them is a float)."
CHANNELS = "`experimental.warp_perspective` keeps the number of channels of each image in a batch (DALI gives all of them the number that the first has)."
BOOLS = "`math.min` and `max` accept bools (DALI refuses them)."
ONE_EXTENT = "One of crop_w and crop_h may be left out; the crop then has the whole extent (DALI wants both, one of them 0)."
FILLS = "fill_value of `sphere` and `water` is rounded to the type of the image (DALI truncates it)."
TURNS = "Angles of thousands of turns are as exact as others (DALI keeps them as float32 in radians, whose last bit is then degrees)."
SIZES = "A fraction of a pixel in `size` of `rotate` and `warp_affine` is rounded (DALI rounds constants, and truncates values by sample)."
NAN = "`grid_mask` writes 0 over NaN and infinities too (DALI multiplies, which leaves NaN)."
TWICE = "A matrix that is given to `warp_affine` twice, as an input and as matrix, is refused (DALI takes the input)."
SOURCES = "src_dims of `reshape` and `reinterpret` is the same for all samples (DALI takes a node)."
NOT_FINITE = (
    "In integer outputs, NaN becomes 0 and infinities become the limits of the type (DALI: whatever the processor converts them to)."
)
FINITE = (
    "Arguments must be finite, except values that fill the output (DALI computes with NaN and infinities: black images, unchanged ones, NaN). Standard"
    " deviations, and `factor` of `noise.shot`, must not be negative either."
)
NEAREST = (
    "If `resize` takes the nearest pixel along one axis and filters along the other, and two pixels are equally near, the two may choose different "
    "ones."
)
LIMITS = "`reductions.min` and `max` of infinities are infinite (DALI: the largest number). NaN is passed on (DALI: sometimes)."
OVERFLOWS = "Sums of integers for a mean do not overflow (DALI's do, of 64 bits and of squares)."

KNOWN = (
    Difference(
        "only Stoker", ".*", r"(?i)(input |data )?type.*not supported|(un|not )supported.*type|invalid type|conversion not supported", MORE
    ),
    Difference("only Stoker", ".*", r"does not match any of the allowed layouts|Unexpected layout of output|more than 4 channels", MORE),
    Difference(
        "only Stoker", ".*", r"Calling type does not match buffer data type|Unexpected shape for arg|cannot be converted to dimension", MORE
    ),
    Difference("only Stoker", "coord_transform", r"must be a list of (2D|1D)", MORE),
    Difference("only Stoker", "transforms.shear", r"Shear coefficient must be", MORE),
    Difference("only Stoker", ".*", r"is not present in the input layout", NAMED),
    Difference(
        "only Stoker",
        "multi_paste",
        "If the `output_size` is not specified",
        "`multi_paste` without output_size makes each output as large as its sample (DALI wants samples of one size).",
    ),
    Difference(
        "values",
        "cast",
        "largest difference",
        "`cast`: Numbers half way between two float16 go to the even one, as IEEE 754 and NumPy have it; DALI's go away from zero.",
        _ties_of_halves,
    ),
    Difference("only DALI", "reductions.(std_dev|variance)", "the mean has .* values, but", MEANS),
    Difference("values", "reductions.(std_dev|variance)", "", MEANS, lambda step, inputs: len(step.operands) > 1),
    Difference("only DALI", "bb.*|box_encoder", r"boxes (must be a tensor|have four)|labels for", BOXES),
    Difference(
        "only DALI",
        "transforms.crop",
        "the box is empty and cannot be scaled",
        "`transforms.crop` refuses to scale from a window of extent 0 (DALI makes infinities).",
    ),
    Difference("only DALI", ".*", r'"(horizontal|vertical|depthwise|crop_pos_z|mirror)" is .* it must be from', FLAGS),
    Difference(
        "only DALI",
        "hue|saturation|hsv|color_twist",
        "must have 3 channels",
        "A fraction for an argument of whole numbers is refused",
    ),
    Difference("only DALI", "bbox_rotate", "it ends before it begins|is not finite", NEGATIVE),
    Difference("only DALI", "crop.*", r'"crop(_[dhw])?" is -.* it must be from 0', NEGATIVE),
    Difference("only Stoker", "bbox_rotate", "is mutually exclusive with", MORE),
    Difference("only DALI", "one_hot", "num_classes is needed", "`one_hot` wants num_classes"),
    Difference("only DALI", "cat", "have extents", "`reductions.mean_square` and `rms` of uint16"),
    Difference("only DALI", "grid_mask", "must be an image", "`grid_mask` reads the layout of its images"),
    Difference("values", "grid_mask", "", "`grid_mask` reads the layout of its images", _other_than_hwc),
    Difference(
        "only DALI",
        "full_like",
        "it must be 1 or the same|does not fit into",
        "`full_like` wants a value that fits into the output (DALI uses its first elements).",
    ),
    Difference("only DALI", "paste", "n_channels", PER_CHANNEL),
    Difference("only DALI", "crop_mirror_normalize|slice|crop|erase", "give one, or one", PER_CHANNEL),
    Difference("only DALI", "resize_crop_mirror", "reaches outside", "`resize`: an extent that is mirrored"),
    Difference("only DALI", "bbox_paste", '"paste_[xy]" is .* it must be from', FLAGS),
    Difference("only Stoker", "arithmetic", "cannot be booleans", BOOLS),
    Difference("only Stoker", "crop.*|resize_crop_mirror", "must be provided together", ONE_EXTENT),
    Difference("values", "sphere|water", "", FILLS, _with_fraction),
    Difference("values", "reductions.(mean|mean_square|rms|sum)", "", OVERFLOWS, _integers),
    Difference("values", "reductions.*", "", LIMITS, _not_finite),
    Difference("values", "arithmetic", "", BELOW_ZERO, _below_zero),
    Difference("values", "crop|slice", "", "With an integer dtype, values of float images are rounded", _floats_to_integers),
    Difference(
        "values",
        "decoders.image.*",
        "",
        "`decoders.image` converts to YCbCr in 8 bits, then to the requested type (DALI converts colours of that type).",
        _ycbcr_to_more,
    ),
    Difference("values", "transforms.rotation", "", TURNS, _many_turns),
    Difference("values", "rotate|warp_affine", "^shape", SIZES, _size_by_sample),
    Difference("values", "erase|pad", "", "fill_value saturates in the type of the samples", _negative_fill),
    Difference("values", "rotate", "^largest difference", "Positions are float32, and DALI's differ in their last bits", _other_than_bytes),
    Difference(
        "values", "normalize", "^largest difference", "Over three channels a variance can be small compared with the values", _hardly_varies
    ),
    Difference("only Stoker", "multi_paste", "kernel instance is of different type", MORE),
    Difference("only Stoker", "filter", "Filter CPU does not support input type", MORE),
    Difference("only Stoker", "experimental.warp_perspective", "Only scalar fill_value can be provided", MORE),
    Difference("only Stoker", "warp_affine", "Affine mapping parameters must be either", MORE),
    Difference("only Stoker", "normalize", "Axes must not be specified when both", "Stoker accepts more than DALI: crops to any type"),
    Difference("values", "grid_mask", "", NAN, _not_finite),
    Difference("values", "experimental.warp_perspective", "^largest difference", "DALI's positions are multiples of 1/32 of a pixel"),
    Difference("values", "sphere", "", "`sphere` does not change images of one pixel", _one_pixel),
    Difference("only DALI", "warp_affine", "the matrix is given twice", TWICE),
    Difference(
        "only DALI",
        "erase|squeeze",
        'is given twice|axes are given for|is out of range|"axes" is .* it must be from',
        "An axis out of range is an IndexError",
    ),
    Difference("only DALI", "reshape|reinterpret", "'src_dims' is the same for all samples", SOURCES),
    Difference("only Stoker", "stack", "for 0-D tensors", MORE),
    Difference("only Stoker", "erase", "roi_anchor.size", MORE),
    Difference("whole", ".*", "DALI refuses the whole: ValueError: Unexpected layout of output", MORE),
    Difference("only Stoker", ".*", r"IsType<T>\(value|shape_cat\(N|Expected uniform shape for arg|The operator accepts t", MORE),
    Difference("only Stoker", "crop_mirror_normalize", "is not a permutation of input layout", MORE),
    Difference("only Stoker", "pad|tensor_resize", "number of dimensions 0|at least 1D", MORE),
    Difference("only DALI", "laplacian", "between spatial dims", "`laplacian` refuses layouts that name a dim twice."),
    Difference(
        "only DALI",
        "arithmetic",
        "a new axis can be named",
        "A new axis can be named only in a tensor with a layout (DALI: also in one that has no dims left).",
    ),
    Difference(
        "only DALI",
        ".*",
        r"is -?(nan|inf|[\d.e+]+).*; it must be (a finite|finite and)|is nan, which an output|the matrix, .* holds",
        FINITE,
    ),
    Difference("values", ".*", "", NOT_FINITE, _not_finite),
    Difference("values", "color_twist", "", "The center of contrast is the middle of the input's type", _integers_but_bytes),
    Difference("values", "resize", "^largest difference", NEAREST, _nearest_along_one),
    Difference("values|only DALI|only Stoker", ".*", "", EMPTY, _empty),
    Difference("values", "experimental.warp_perspective", "^shape", CHANNELS),
)


def known(kind: str, step: Step, program: Program, why: str) -> str:
    """Returns the sentence that describes the difference, or "" if the difference is a new finding."""
    # refs() returns the operands first, then the arguments that differ by sample.
    inputs = [program.sources[r] for r in step.refs() if r in program.sources]
    for d in KNOWN:
        if re.fullmatch(d.kind, kind) and re.fullmatch(d.op, step.op) and re.search(d.why, why) and d.when(step, inputs):
            return d.sentence
    return ""
