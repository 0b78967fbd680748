# SPDX-License-Identifier: Apache-2.0
"""Operators on the geometry of images, in cases that the comparison with DALI (parity/) does not cover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn, types
from stoker.errors import StokerError
from support import SEED


def run(define: Any, batch_size: int = 2, **settings: Any) -> list[list[np.ndarray]]:
    pipe = Pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=SEED, **settings)
    with pipe:
        out = define()
        pipe.set_outputs(*(out if isinstance(out, (list, tuple)) else (out,)))
    return [[np.array(o.at(i)) for i in range(len(o))] for o in pipe.run()]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_a_source_that_declares_nothing(dtype: str, fuse: bool) -> None:
    """If a source declares no type, the graph is compiled before the type is known. Samples of a type that no fused pass supports still give the values of
    float32 samples, rounded."""
    rng = np.random.default_rng(SEED)
    images = [rng.integers(0, 200, (20 + i, 30, 3)).astype(dtype) for i in range(2)]

    def define() -> Any:
        image = fn.external_source(source=lambda: images)
        image = fn.warp_affine(image, matrix=[0.913, 0.107, 2.01, -0.2017, 1.1031, -3.04], fill_value=7)
        return fn.crop(fn.flip(image, horizontal=1), crop=[11, 13])

    def reference() -> Any:
        image = fn.external_source(source=lambda: [i.astype(np.float32) for i in images], layout="HWC", dtype="float32")
        image = fn.warp_affine(image, matrix=[0.913, 0.107, 2.01, -0.2017, 1.1031, -3.04], fill_value=7)
        return fn.crop(fn.flip(image, horizontal=1), crop=[11, 13])

    for ours, floats in zip(run(define, fuse=fuse)[0], run(reference, fuse=fuse)[0], strict=True):
        assert ours.dtype == dtype
        assert np.abs(ours - floats).max() <= 0.51


def test_matrices_are_refused_by_what_they_are() -> None:
    image = [np.zeros((8, 8, 3), np.uint8)] * 2
    for matrix, message in (
        (np.eye(3, dtype=np.float32), "two rows of three"),
        (np.zeros((2, 3), np.float64), "cast it to float32"),
        (np.zeros(6, np.float32), "two rows of three"),
    ):
        with pytest.raises(StokerError, match=message):
            run(
                lambda matrix=matrix: fn.warp_affine(
                    fn.external_source(source=lambda: image), fn.external_source(source=lambda: [matrix] * 2)
                )
            )


@pytest.mark.parametrize("name", ["paste_x", "paste_y"])
@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_boxes_are_pasted_where_images_can_be(name: str, value: float) -> None:
    """bbox_paste refuses positions below 0 and above 1, as pasting an image does. DALI treats 1.5 as 1, and accepts -0.5."""
    boxes = [np.float32([[0.1, 0.2, 0.3, 0.4]])] * 2
    for position in (value, lambda: fn.external_source(source=lambda: [np.float32(value)] * 2)):
        with pytest.raises(StokerError, match=f'"{name}" is {value}; it must be from 0 to 1'):
            run(
                lambda position=position: fn.bbox_paste(
                    fn.external_source(source=lambda: boxes), ratio=2.0, **{name: position() if callable(position) else position}
                )
            )


@pytest.mark.parametrize(
    ("box", "layout", "message"),
    [
        (
            [0.6, 0.5, 0.2, 0.9],
            "xyXY",
            r'box 1 is \(0.6, 0.5, 0.2, 0.9\), which is not a box: it ends before it begins; .* "xyXY", "xyWH" takes extents; sample 0',
        ),
        (
            [0.6, 0.5, 0.2, -0.1],
            "xyWH",
            r'box 1 is \(0.6, 0.5, 0.2, -0.1\), which is not a box: it ends before it begins; bbox_layout is "xyWH"; sample 0',
        ),
        ([0.1, float("nan"), 0.2, 0.9], "xyXY", r"box 1 is \(0.1, nan, 0.2, 0.9\), which is not finite"),
        ([0.1, 0.2, float("inf"), 0.9], "xyWH", r"box 1 is \(0.1, 0.2, inf, 0.9\), which is not finite"),
    ],
)
def test_boxes_that_are_not_valid_are_refused(box: list[float], layout: str, message: str) -> None:
    """bbox_rotate refuses boxes that end before they begin or are not finite. It must not give them other corners, or move those with NaN to 0."""
    boxes = np.array([[0.1, 0.1, 0.2, 0.3], box], np.float32)
    with pytest.raises(StokerError, match=message):
        run(lambda: fn.bbox_rotate(fn.external_source(lambda: [boxes] * 2), angle=30.0, bbox_layout=layout, input_shape=[100, 200]))


def test_a_point_without_direction_is_refused() -> None:
    with pytest.raises(StokerError, match="axis is 0"):
        run(lambda: fn.transforms.rotation(angle=10.0, axis=[0.0, 0, 0]))
    with pytest.raises(StokerError, match="component 1 of from_start"):
        run(lambda: fn.transforms.crop(from_start=[0.0, 1], from_end=[1.0, 1]))


def bilinear(image: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Samples the image bilinearly at positions (x, y). The pixel in row i and column j is at (j, i); pixels outside of the image are 0."""
    padded = np.pad(image.astype(np.float64), ((2, 2), (2, 2), (0, 0)))
    x, y = np.clip(x + 2, 0, padded.shape[1] - 2), np.clip(y + 2, 0, padded.shape[0] - 2)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    qx, qy = (x - left)[..., None], (y - top)[..., None]
    upper = padded[top, left] * (1 - qx) + padded[top, left + 1] * qx
    return upper * (1 - qy) + (padded[top + 1, left] * (1 - qx) + padded[top + 1, left + 1] * qx) * qy


@pytest.mark.parametrize("origin", ["corner", "center"])
@pytest.mark.parametrize("frames", [0, 2])
def test_remap_equals_bilinear_sampling(origin: str, frames: int) -> None:
    rng = np.random.default_rng(SEED)
    lead = (frames,) if frames else ()
    images = [rng.uniform(0, 1, (*lead, 15, 21, 3)).astype(np.float32) for _ in range(2)]
    maps = [[rng.uniform(-2, 22, (*lead, 9, 13)).astype(np.float32) for _ in range(2)] for _ in range(2)]

    def define() -> Any:
        image = fn.external_source(source=lambda: images, layout="FHWC" if frames else "HWC")
        x, y = (fn.external_source(source=[m], cycle=True, layout="FHW" if frames else "HW") for m in maps)
        one_map = [x, y] if not frames else [n[0] for n in (x, y)]
        return fn.experimental.remap(image, x, y, pixel_origin=origin), fn.experimental.remap(image, *one_map, pixel_origin=origin)

    own, shared = run(define)
    shift = 0 if origin == "center" else 0.5
    for i in range(2):
        for f in range(max(frames, 1)):
            image = images[i][f] if frames else images[i]
            for got, at in ((own, f), (shared, 0)):
                x, y = (m[i][at] if frames else m[i] for m in maps)
                result = got[i][f] if frames else got[i]
                np.testing.assert_allclose(result, bilinear(image, x - shift, y - shift), atol=2e-5)


def test_jitter_moves_pixels_as_far_as_it_says_and_in_all_ways_alike() -> None:
    y, x = np.mgrid[0:120, 0:100]
    picture = np.stack([x, y], -1).astype(np.float32)

    def define() -> Any:
        return fn.jitter(fn.external_source(source=lambda: [picture] * 2, layout="HWC"), nDegree=5, fill_value=-100.0)

    moved = np.stack(run(define)[0]) - picture
    inside = (moved > -90).all(-1)
    assert inside.mean() > 0.95 and not (moved[0] == moved[1]).all()
    values, counts = np.unique(moved[inside].reshape(-1, 2), axis=0, return_counts=True)
    print(f"seed {SEED}: {dict(zip(map(tuple, values), counts, strict=True))}")
    assert len(values) == 25 and np.abs(values).max() == 2
    middle = inside[:, 2:-2, 2:-2] & True
    _, counts = np.unique(moved[:, 2:-2, 2:-2][middle].reshape(-1, 2), axis=0, return_counts=True)
    expected = counts.sum() / 25
    # Chi-squared with 24 degrees of freedom exceeds 60 by chance with probability 6e-5.
    assert ((counts - expected) ** 2 / expected).sum() < 60


def test_mask_0_leaves_an_image_alone() -> None:
    picture = np.random.default_rng(SEED).integers(0, 255, (9, 11, 3)).astype(np.uint8)

    def define() -> Any:
        image = fn.external_source(source=lambda: [picture] * 2, layout="HWC")
        mask = fn.external_source(source=lambda: [np.int32(0), np.int32(1)])
        return [fn.sphere(image, mask=mask), fn.water(image, mask=mask), fn.jitter(image, mask=mask)]

    for left_alone, changed in run(define):
        assert (left_alone == picture).all() and not (changed == picture).all()


def test_objects_are_connected_blobs() -> None:
    """Each drawn box is that of a blob found by SciPy, and at least 90% of the blobs are drawn."""
    ndimage = pytest.importorskip("scipy.ndimage")
    rng = np.random.default_rng(SEED)
    for shape in ((9, 12), (40,), (5, 6, 7)):
        mask = rng.integers(0, 4, shape).astype(np.uint8)
        expected = {
            (label, *(s.start for s in box), *(s.stop for s in box))
            for label in (1, 2, 3)
            for box in ndimage.find_objects(ndimage.label(mask == label)[0])
        }

        def define(mask: np.ndarray = mask) -> Any:
            labels = fn.external_source(source=lambda: [mask] * 2000)
            return fn.segmentation.random_object_bbox(labels, format="box", output_class=True)

        boxes, labels = run(define, 2000)
        found = {(int(label), *(int(v) for v in box)) for box, label in zip(boxes, labels, strict=True)}
        assert found <= expected, f"seed {SEED}, shape {shape}: {found - expected}"
        assert len(found) >= 0.9 * len(expected)


def test_windows_that_cannot_be_had_are_an_error_that_says_so() -> None:
    boxes = [np.float32([[0, 0, 0.1, 0.1], [0.9, 0.9, 1, 1]])] * 2

    def define(**kwargs: Any) -> Any:
        given = fn.external_source(source=lambda: boxes)
        return fn.random_bbox_crop(given, scaling=[0.2, 0.3], thresholds=[0.9], allow_no_crop=False, **kwargs)

    with pytest.raises(StokerError, match="give total_num_attempts"):
        run(define)
    assert all(len(b) <= 1 for b in run(lambda: define(total_num_attempts=7))[2])


def test_windows_outside_of_an_image_name_an_argument_that_there_is(tree: Path) -> None:
    """The decoders, and resize_crop_mirror, have no out_of_bounds_policy, so that their messages name the operators that have it."""

    def data() -> Any:
        return fn.readers.file(file_root=str(tree))[0]

    other = r'; crop or slice, as an operator of its own, with out_of_bounds_policy="pad"'
    for define, message in (
        (lambda: fn.crop(fn.decoders.image(data()), crop=[999, 9]), '; out_of_bounds_policy="pad"'),
        (lambda: fn.decoders.image_crop(data(), crop=[999, 9]), other),
        (lambda: fn.decoders.image_slice(data(), start=[0, 0], end=[999, 9], axes=[0, 1]), other),
        (lambda: fn.resize_crop_mirror(fn.decoders.image(data()), size=[99, 9], crop=[999, 9]), other),
    ):
        with pytest.raises(StokerError, match=r"reaches outside the height of \d+" + message):
            run(define, 1)


@pytest.mark.parametrize("layout", ["HWC", "DHWC", "WHC"])
@pytest.mark.parametrize("name", ["crop_h", "crop_w"])
def test_a_window_of_a_resized_image_may_be_empty(layout: str, name: str) -> None:
    """Windows of images, of volumes, and of other arrays that no pass resizes may be empty."""
    extents = {"D": 5, "H": 19, "W": 18, "C": 3}
    x = np.zeros([extents[d] + 4 * (d != "C") for d in layout], np.uint8)

    def define() -> Any:
        node = fn.external_source(source=lambda: [x, x], layout=layout)
        return fn.resize_crop_mirror(node, size=[extents[d] for d in "DHW" if d in layout], **{name: 0.3})

    (out,) = run(define)
    want = tuple(0 if "crop_" + d.lower() == name else extents[d] for d in layout)
    assert [o.shape for o in out] == [want, want]


def test_all_polygons_of_a_mask_are_selected() -> None:
    """segmentation.select_masks returns all polygons of a mask, and their vertices. DALI returns only the last polygon."""
    polygons = [np.int32([[1, 0, 3], [0, 3, 7], [1, 7, 10]])] * 2
    vertices = [np.arange(20, dtype=np.float32).reshape(10, 2)] * 2

    def define() -> Any:
        sources = [fn.external_source(source=[s], cycle=True) for s in ([np.int32([1])] * 2, polygons, vertices)]
        return fn.segmentation.select_masks(*sources)

    rows, points = run(define)
    assert rows[0].tolist() == [[1, 0, 3], [1, 3, 6]]
    assert (points[0] == vertices[0][[0, 1, 2, 7, 8, 9]]).all()


@pytest.mark.parametrize(
    ("layout", "call"),
    [
        ("CFHW", lambda x: fn.warp_affine(x, matrix=[1.0, 0, 0, 0, 1, 0])),
        ("HWCF", lambda x: fn.rotate(x, angle=10.0)),
        ("HFWC", lambda x: fn.experimental.warp_perspective(x, matrix=[1.0, 0, 0, 0, 1, 0, 0, 0, 1])),
        ("WHFC", lambda x: fn.multi_paste(x, output_size=[9, 9])),
        ("FWHC", lambda x: fn.grid_mask(x, ratio=25.0)),
        ("FHCW", lambda x: fn.grid_mask(x, ratio=25.0)),
        ("WHFC", lambda x: fn.equalize(x)),
        ("FWHC", lambda x: fn.experimental.erode(x)),
    ],
)
def test_dims_in_an_order_that_an_operator_has_no_loop_for(layout: str, call: Any) -> None:
    tensor = [np.zeros((3, 4, 5, 6), np.uint8)] * 2
    with pytest.raises(StokerError, match="transpose"):
        run(lambda: call(fn.external_source(source=lambda: tensor, layout=layout)))


@pytest.mark.parametrize("interp", [types.INTERP_NN, types.INTERP_LINEAR])
@pytest.mark.parametrize("extents", [(1, 1), (1, 2), (3, 2)])
def test_planes_are_sampled_alike(extents: tuple[int, int], interp: Any) -> None:
    """A warp of seven planes with one value gives that value everywhere. In memory, planes of a single pixel look like one pixel of seven channels."""
    planes = [np.full((7, *extents), 201, np.uint8) for _ in range(2)]
    matrix = [0.3, -0.1, 0.2, 0.1, 0.4, 0.3, 0.0, 0.0, 1.0]

    def define() -> Any:
        image = fn.external_source(source=lambda: planes, layout="CHW")
        return fn.experimental.warp_perspective(image, matrix=matrix, size=[4, 9], border_mode="replicate", interp_type=interp)

    for image in run(define)[0]:
        np.testing.assert_array_equal(image, np.full((7, 4, 9), 201))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("interp", [types.INTERP_NN, types.INTERP_LINEAR])
def test_sampling_in_blocks_is_sampling_pixel_by_pixel(dtype, interp):
    """Images of floats, and of bytes with up to four channels, are sampled several pixels at a time, others pixel by pixel. Both ways give the same pixels,
    except that interpolated ones may differ by rounding. Some rows are longer than a block of pixels."""
    rng = np.random.default_rng(11)
    samples = [
        rng.integers(0, 256, (h, w, c)).astype(dtype)
        for h, w, c in ((37, 300, 3), (5, 513, 3), (1, 7, 3), (2, 2, 3), (300, 1, 3), (40, 41, 3))
    ]
    samples += [np.ascontiguousarray(s[:, :, :1]) for s in samples]

    many = [np.concatenate([s.astype(np.uint8)] * 5, axis=2) for s in samples]

    def both(define):
        pipe = Pipeline(len(samples), 2, None, seed=2)
        with pipe:
            given = [fn.external_source(source=[s], cycle=True, layout="HWC") for s in (samples, many)]
            pipe.set_outputs(*map(define, given))
        return pipe.run()

    matrix = [0.9, 0.2, -3.0, -0.1, 1.1, 2.0, 0.001, -0.002, 1.0]
    calls = [
        lambda x: fn.sphere(x, interp_type=interp, fill_value=9),
        lambda x: fn.water(x, interp_type=interp, fill_value=3, ampl_x=4.5, freq_y=0.11),
        lambda x: fn.experimental.warp_perspective(x, matrix=matrix, interp_type=interp, fill_value=5, inverse_map=False),
        *(
            lambda x, b=b: fn.experimental.warp_perspective(x, matrix=matrix, interp_type=interp, border_mode=b)
            for b in ("replicate", "reflect_101")
        ),
    ]
    for call in calls:
        for fast, slow in zip(*both(call), strict=True):
            fast, slow = np.asarray(fast), np.asarray(slow)
            slow = slow[:, :, : fast.shape[2]]
            if interp == types.INTERP_NN:
                np.testing.assert_array_equal(fast, slow)
            else:
                np.testing.assert_allclose(fast, slow, atol=1 if dtype == np.uint8 else 0.51)
