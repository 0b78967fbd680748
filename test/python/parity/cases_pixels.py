# SPDX-License-Identifier: Apache-2.0
"""Cases of crop_mirror_normalize, normalize, the colour operators and color_space_conversion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import Batch, Case, Library, T, rng_of
from samples import images, per_sample, tensors, uniform

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def crop_mirror_normalize() -> Iterator[Case]:
    rng = rng_of("crop_mirror_normalize")

    def case(batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case("crop_mirror_normalize", [batch or images(rng, low=40)], kwargs)

    yield case()
    for dtype in (T.FLOAT, T.FLOAT16, T.UINT8, T.INT8):
        for layout in ("CHW", "HWC"):
            yield case(dtype=dtype, output_layout=layout)
            yield case(dtype=dtype, output_layout=layout, mean=MEAN, std=STD, crop=[20, 30], mirror=1)
            yield case(dtype=dtype, output_layout=layout, pad_output=True, crop=[20, 30])
            yield case(dtype=dtype, output_layout=layout, scale=20, shift=60, mean=MEAN, std=STD)
    for dtype in ("uint8", "int16", "uint16", "float32"):
        yield case(images(rng, dtype, low=40), mean=[1.5, 2.5, 3.5], std=[2, 3, 4], crop=[20, 30])
        yield case(images(rng, dtype, low=40), dtype=T.UINT8, scale=0.5, shift=7)
        yield case(images(rng, dtype, low=40), dtype=T.FLOAT16, scale=0.001)
    yield case(images(rng, channels=1, low=40), mean=[128], std=[50])
    yield case(images(rng, channels=4, low=40), mean=[1, 2, 3, 4], std=[50])
    yield case(mean=[128], std=[50])
    yield case(mean=[128], std=STD)
    yield case(mean=per_sample([MEAN, MEAN[::-1], MEAN]), std=per_sample([STD, STD, STD[::-1]]))
    yield case(mirror=per_sample([1, 0, 1], "int32"), crop=[21, 17])
    yield case(crop=per_sample([[10, 12], [20, 22], [30, 35]]), crop_pos_x=uniform(rng, 0, 1), crop_pos_y=uniform(rng, 0, 1))
    yield case(crop_w=12, crop_h=13, crop_pos_x=0.3, crop_pos_y=0.8, rounding="truncate")
    for policy in ("pad", "trim_to_shape"):
        yield case(crop=[100, 50], out_of_bounds_policy=policy, mirror=1)
    yield case(crop=[100, 120], out_of_bounds_policy="pad", fill_values=[7, 8, 9], mean=MEAN, std=STD)
    yield case(crop=[100, 120], out_of_bounds_policy="pad", fill_values=[7], pad_output=True, output_layout="HWC")
    yield case(crop=[100, 120], out_of_bounds_policy="pad", fill_values=[1, 2, 3, 4], pad_output=True, mirror=1)
    yield case(crop=[20, 30], fill_values=[1, 2, 3, 4], pad_output=True, mirror=1)
    yield case(images(rng, channels=1, low=40), pad_output=True)
    yield case(images(rng, channels=4, low=40), pad_output=True)
    for dtype in (T.FLOAT, T.FLOAT16, T.UINT8, T.INT8):
        for layout in ("CHW", "HWC"):
            planar = images(rng, layout="CHW", low=40)
            yield case(planar, dtype=dtype, output_layout=layout, mean=MEAN, std=STD, crop=[20, 30], mirror=1, scale=20)
            yield case(planar, dtype=dtype, output_layout=layout, pad_output=True, mean=MEAN, std=STD)
            fills = {"out_of_bounds_policy": "pad", "fill_values": [1, 2, 3, 4], "pad_output": True}
            yield case(planar, dtype=dtype, output_layout=layout, crop=[100, 50], **fills)
    for channels in (1, 4, 5):
        yield case(images(rng, "int16", channels, "CHW"), mean=[*range(channels)], pad_output=True)
    clips = [np.stack([s, s[:, ::-1]]) for s in images(rng, layout="CHW", low=40).samples]
    for layout in ("FCHW", "FHWC"):
        yield case(Batch(clips, "FCHW"), output_layout=layout, mean=MEAN, std=STD, crop=[20, 30], mirror=1, pad_output=True)
    for bad in (
        {"mean": [1, 2]},
        {"std": [1, 2, 3, 4]},
        {"crop": [200, 200]},
        {"output_layout": "HW"},
        {"dtype": T.INT32},
    ):
        yield Case("crop_mirror_normalize", [images(rng)], bad, error=True)


def normalize() -> Iterator[Case]:
    rng = rng_of("normalize")

    def case(of: Batch | None = None, **kwargs: Any) -> Case:
        return Case("normalize", [of or images(rng)], kwargs)

    yield case()
    yield case(axes=[0, 1])
    few = "Over three channels a variance can be small compared with the values. Sums in float32 (DALI's) then lose digits, which sums in double keep."
    yield Case("normalize", [images(rng)], {"axes": [2]}, bound=1e-4, differs=few)
    yield case(axis_names="HW")
    yield Case("normalize", [images(rng)], {"axis_names": "C"}, bound=1e-4, differs=few)
    yield case(axes=[0, 1], epsilon=10, ddof=1)
    yield case(axes=[0, 1], mean=100)
    yield case(axes=[0, 1], stddev=30)
    yield case(mean=100, stddev=30)
    yield case(mean=100, stddev=30, scale=64, shift=128, dtype=T.UINT8)
    yield case(scale=64, shift=128, dtype=T.UINT8)
    yield case(scale=64, shift=-12, dtype=T.INT8)
    yield case(scale=64, shift=-12, dtype=T.INT16)
    channels = [np.asarray(rng.uniform(90, 130, (1, 1, 3)), np.float32) for _ in range(3)]
    yield case(axes=[0, 1], mean=Batch(channels))
    yield case(axes=[0, 1], mean=Batch(channels), stddev=Batch(channels))
    yield case(mean=Batch(channels))
    yield case(stddev=Batch(channels))
    yield case(mean=Batch(channels), stddev=20)
    yield case(mean=np.float32([[[90, 100, 110]]]))
    yield case(mean=np.float32([[[90, 100, 110]]]), stddev=np.float32([[[20, 30, 40]]]), axes=[0, 1])
    rows = Batch([rng.normal(3, 2, (2, 4, 3)).astype(np.float32) for _ in range(3)])
    for shape, axes in (((2, 1, 1), [1, 2]), ((2, 1, 1), None), ((1, 4, 1), None), ((2, 1, 1), [0, 1]), ((1, 1, 3), [1, 2])):
        given = Batch([np.asarray(rng.uniform(1, 3, shape), np.float32) for _ in range(3)])
        wrong = axes is not None and any(shape[a] != 1 for a in axes)
        kwargs = {"mean": given, **({} if axes is None else {"axes": axes})}
        yield Case("normalize", [rows], kwargs, error=wrong, title=f"mean of {shape}, axes {axes}")

    for dtype in ("uint8", "int16", "uint16", "int32", "float32"):
        yield case(images(rng, dtype))
        yield case(images(rng, dtype, layout="CHW"), axes=[1, 2])
    square = Batch([rng.normal(3, 2, (3, 4)).astype(np.float32) for _ in range(3)])
    yield Case("normalize", [square], {"axes": [1], "mean": Batch([np.ones((1, 1, 3), np.float32)] * 3)}, error=True)
    yield Case("normalize", [images(rng)], {"axes": [0, 1], "axis_names": "HW"}, error=True)
    yield case(tensors(rng, "float32", 2, low=3), axes=[1])
    yield case(tensors(rng, "float32", 4, low=2), axes=[1, 3])
    yield case(tensors(rng, "float32", 1, low=5))
    for dtype in ("uint8", "int16", "float32"):
        yield case(images(rng, dtype), batch=True)
        yield case(images(rng, dtype), batch=True, axes=[0, 1])
        yield case(images(rng, dtype), batch=True, axis_names="HW", ddof=1, epsilon=3.0, scale=20, shift=1)
        yield case(images(rng, dtype, layout="CHW"), batch=True, axes=[1, 2])
        yield case(images(rng, dtype), batch=True, axes=[0, 1], mean=100)
        yield case(images(rng, dtype), batch=True, stddev=30)
        yield case(images(rng, dtype), batch=True, mean=100, stddev=30)
        yield case(images(rng, dtype), batch=True, axes=[0, 1], dtype=T.UINT8, scale=64, shift=128)
    same = Batch([rng.normal(3, 2, (4, 5, 6)).astype(np.float32) for _ in range(3)])
    for axes in ([0], [1], [2], [0, 2], [1, 2]):
        yield case(same, batch=True, axes=axes)
    yield Case("normalize", [images(rng)], {"axes": [2], "batch": True}, error=True)
    yield Case("normalize", [images(rng)], {"axes": [0, 1], "batch": True, "mean": Batch(channels)}, error=True)
    yield Case("normalize", [images(rng)], {"axes": [7]}, error=True)
    yield Case("normalize", [images(rng)], {"axis_names": "Z"}, error=True)


CENTER = "The center of contrast is the middle of the input's type, as in contrast; DALI's color_twist takes 128 for every integer type."


def colour() -> Iterator[Case]:
    rng = rng_of("colour")

    def case(op: str, batch: Batch | None = None, **kwargs: Any) -> Case:
        return Case(op, [batch or images(rng)], kwargs, share=0.9)

    settings: dict[str, list[dict[str, Any]]] = {
        "brightness": [{"brightness": 1.3}, {"brightness": 0.4, "brightness_shift": 0.2}, {"brightness": uniform(rng, 0.5, 1.5)}],
        "contrast": [{"contrast": 1.4}, {"contrast": 0.3, "contrast_center": 0.2}, {"contrast": uniform(rng, 0.5, 1.5)}],
        "brightness_contrast": [
            {"brightness": 1.2, "contrast": 0.7},
            {"brightness": 0.7, "brightness_shift": -0.1, "contrast": 1.6, "contrast_center": 100},
            {"brightness": uniform(rng, 0.5, 1.5), "contrast": uniform(rng, 0.5, 1.5), "brightness_shift": uniform(rng, -0.3, 0.3)},
        ],
    }
    for op, each in settings.items():
        for kwargs in ({}, *each):
            yield case(op, **kwargs)
            for dtype in ("int16", "float32"):
                yield case(op, images(rng, dtype), **kwargs)
            for out in (T.UINT8, T.INT16, T.FLOAT):
                yield case(op, dtype=out, **kwargs)
        yield case(op, images(rng, "float32"), dtype=T.UINT8, **each[0])
        yield case(op, images(rng, "int16"), dtype=T.UINT8, **each[1])
        yield case(op, images(rng, channels=1), **each[0])
    colours: dict[str, list[dict[str, Any]]] = {
        "hue": [{"hue": 40}, {"hue": -130.5}, {"hue": uniform(rng, -180, 180)}],
        "saturation": [{"saturation": 0.2}, {"saturation": 1.9}, {"saturation": uniform(rng, 0, 2)}],
        "hsv": [{"hue": 33, "saturation": 1.4, "value": 0.8}, {"value": uniform(rng, 0.5, 1.5), "hue": uniform(rng, -90, 90)}],
        "color_twist": [
            {"brightness": 1.2, "contrast": 0.8, "hue": 25, "saturation": 1.3},
            {"contrast": 1.7},
            {
                "brightness": uniform(rng, 0.5, 1.5),
                "contrast": uniform(rng, 0.5, 1.5),
                "hue": uniform(rng, -180, 180),
                "saturation": uniform(rng, 0, 2),
            },
        ],
    }
    for op, each in colours.items():
        for kwargs in ({}, *each):
            yield case(op, **kwargs)
            yield case(op, dtype=T.FLOAT, **kwargs)
            yield case(op, images(rng, "float32"), **kwargs)
            yield case(op, images(rng, "float32"), dtype=T.UINT8, **kwargs)
            if op != "color_twist" or not kwargs:
                yield case(op, images(rng, "int16"), **kwargs)
                yield case(op, images(rng, "int16"), dtype=T.UINT8, **kwargs)
            else:
                yield Case(op, [images(rng, "int16")], kwargs, bound=32767, differs=CENTER)
        yield case(op, dtype=T.INT16, **each[0])


def colour_of_int32() -> Iterator[Case]:
    """Yields cases of int32. Their bounds allow differences in the last bits, because both libraries compute in float32, which has fewer bits."""
    rng = rng_of("colour of int32")
    few = Batch([rng.integers(-300, 300, (9, 11 + i, 3)).astype(np.int32) for i in range(3)], "HWC")
    wide = images(rng, "int32")
    for op, kwargs in (
        ("brightness", {"brightness": 1.3, "brightness_shift": 1e-7}),
        ("contrast", {"contrast": 0.7, "contrast_center": 100.0}),
        ("brightness_contrast", {"brightness": 0.7, "contrast": 1.6, "contrast_center": 100.0}),
        ("hue", {"hue": 40.0}),
        ("saturation", {"saturation": 1.4}),
        ("hsv", {"hue": 33.0, "saturation": 1.4, "value": 0.8}),
        ("color_twist", {"brightness": 1.2, "hue": 25.0}),
    ):
        for out in (T.INT32, T.UINT8, T.INT16, T.FLOAT):
            yield Case(op, [few], {**kwargs, "dtype": out}, share=0.9)
        yield Case(op, [images(rng)], {**kwargs, "dtype": T.INT32}, share=0.9, bound=4 if "shift" not in str(kwargs) else 40)
        yield Case(op, [wide], {**kwargs, "dtype": T.INT32}, bound=2.0**11)
    yield Case("contrast", [wide], {"contrast": 0.5}, bound=2.0**11)


def color_space_conversion() -> Iterator[Case]:
    rng = rng_of("color_space_conversion")
    spaces = (T.RGB, T.BGR, T.GRAY, T.YCbCr)
    planar = Batch([np.ascontiguousarray(s) for s in images(rng, layout="CHW").samples], "CHW")
    turned = {"title": "behind a transposition of CHW", "share": 0.9}
    for op, kwargs in (("hsv", {"hue": 33.0}), ("color_space_conversion", {"image_type": T.RGB, "output_type": T.GRAY})):

        def turn(lib: Library, x: Any, op: str = op, kwargs: dict[str, Any] = kwargs) -> Any:
            return lib.operator(op)(lib.fn.transpose(x, perm=[1, 2, 0]), **lib.resolve_all(kwargs))

        yield Case(op, [planar], build=turn, **turned)
    for op, kwargs in (("hsv", {"hue": 33.0}), ("brightness_contrast", {"brightness": 1.2}), ("color_twist", {"hue": 33.0})):
        yield Case(op, [Batch([np.stack([s, s[::-1]]) for s in images(rng).samples], "DHWC")], kwargs, share=0.9)
    for a, b in ((a, b) for a in spaces for b in spaces if a != b):
        channels = 1 if a == T.GRAY else 3
        yield Case("color_space_conversion", [images(rng, channels=channels)], {"image_type": a, "output_type": b})
    yield Case("color_space_conversion", [images(rng, channels=1)], {"image_type": T.RGB, "output_type": T.BGR}, error=True)


def all_cases() -> Iterator[Case]:
    for group in (crop_mirror_normalize, normalize, colour, colour_of_int32, color_space_conversion):
        yield from group()
