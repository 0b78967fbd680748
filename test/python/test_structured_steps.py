# SPDX-License-Identifier: Apache-2.0
"""Compares the steps of stoker.structured with NumPy, for random trees."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import SEED, photograph

torch = pytest.importorskip("torch")

from stoker import fn, types  # noqa: E402
from stoker.batching import RaggedBatch  # noqa: E402
from stoker.structured.inputs import DataProvider, ShuffledShardedInputCallable  # noqa: E402
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup  # noqa: E402
from stoker.structured.processing_steps import (  # noqa: E402
    AffineTransformer,
    AnnotationElementConditionEval,
    AxesLayoutSetter,
    BEVBBoxesTransformer3D,
    BoundingBoxToHeatmapConverter,
    ConditionalElementRemover,
    CoordinateCropper,
    DataGroupArrayInPathElementsAppliedStep,
    DataGroupArrayWithNameElementsAppliedStep,
    DataGroupInPathAppliedStep,
    DataGroupsWithNameAppliedStep,
    ImageDecoder,
    ImageRange01Normalizer,
    ImageToTileSizePadder,
    PhotoMetricDistorter,
    PipelineStepBase,
    PointsInRangeCheck,
    TensorSizeAdder,
    VisibleBboxSelector,
)

A = AffineTransformer


class Given(DataProvider):
    """Provides samples from nested dicts of arrays; a list becomes a group whose fields are named by their indices. The first sample determines the format."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples

    @property
    def sample_data_structure(self) -> SampleDataGroup:
        return self._structure(self.samples[0])

    def _structure(self, value: Any) -> SampleDataGroup:
        made = SampleDataGroup()
        for name, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(child, np.ndarray):
                made.add_data_field(name, types.to_dtype(child.dtype))
            else:
                made.add_data_group_field(name, self._structure(child))
        return made

    def get_number_of_samples(self) -> int:
        return len(self.samples)

    def get_data(self, sample_index: int) -> SampleDataGroup:
        made = self.sample_data_structure
        self._fill(made, self.samples[sample_index])
        return made

    def _fill(self, group: SampleDataGroup, value: Any) -> None:
        for name, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(child, np.ndarray):
                group[name] = child
            else:
                self._fill(group[name], child)


def run(samples: list[dict[str, Any]], steps: list[Any], **kwargs: Any) -> list[dict[str, Any]]:
    """Applies the steps, and returns the samples as dicts of NumPy arrays."""
    order = ShuffledShardedInputCallable(Given(samples), len(samples))
    definition = PipelineDefinition(order, steps, use_parallel_external_source=False)
    pipe = definition.get_dali_pipeline(batch_size=len(samples), num_threads=2, seed=SEED, **kwargs)
    batch = next(iter(DALIStructuredOutputIterator(1, pipe, definition.check_and_get_output_data_structure())))
    return [one(batch, i) for i in range(len(samples))]


def one(value: Any, i: int) -> Any:
    if isinstance(value, dict):
        return {name: one(child, i) for name, child in value.items()}
    if isinstance(value, RaggedBatch):
        return value.tensor[i, : int(value.sample_sizes[i])].cpu().numpy()
    return value[i].cpu().numpy()


def jpeg(image: np.ndarray) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95)
    return np.frombuffer(file.getvalue(), np.uint8)


def boxes(rng: np.random.Generator, n: int, width: float, height: float) -> np.ndarray:
    """Draws boxes that may exceed the image, each given by any two opposite corners."""
    return (rng.uniform(-0.2, 1.2, (n, 4)) * [width, height, width, height]).astype(np.float32)


# ---- affine ----

CORNERS = np.array([[0, 0, 1, 0, 0, 1]], np.float32)  # three points, whose new positions determine the matrix


def matrix_of(probe: np.ndarray) -> np.ndarray:
    o, x, y = probe.reshape(3, 2).astype(np.float64)
    return np.stack([x - o, y - o, o], 1)


def homogeneous(m: np.ndarray) -> np.ndarray:
    return np.vstack([m, [0, 0, 1]])


def about(m: list[list[float]], w: float, h: float) -> np.ndarray:
    c = np.array([w / 2, h / 2])
    return homogeneous(np.hstack([m, (c - np.array(m) @ c)[:, None]]))


def shifted(x: float, y: float) -> np.ndarray:
    return np.array([[1.0, 0, x], [0, 1, y], [0, 0, 1]])


def fitted(mode: str, keep: float, w: int, h: int, out: tuple[int, int]) -> np.ndarray:
    sx, sy = out[1] / w, out[0] / h
    if mode != "STRETCH":
        sx = sy = (min if mode == "PAD" else max)(sx, sy)
    return np.array([[sx, 0, keep * (out[1] - sx * w)], [0, sy, keep * (out[0] - sy * h)], [0, 0, 1]])


def bilinear(image: np.ndarray, m: np.ndarray, out: tuple[int, int]) -> np.ndarray:
    """Warps the image by m to the size `out`, with bilinear interpolation; pixels outside of the image are 0."""
    inverse = np.linalg.inv(homogeneous(m))
    y, x = np.mgrid[0 : out[0], 0 : out[1]] + 0.5
    at = np.einsum("ij,jhw->ihw", inverse[:2], np.stack([x, y, np.ones_like(x)])) - 0.5
    low = np.floor(at).astype(int)
    part = at - low
    padded = np.pad(image.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    total = np.zeros((*out, image.shape[2]))
    for dy in (0, 1):
        for dx in (0, 1):
            weight = (part[0] if dx else 1 - part[0]) * (part[1] if dy else 1 - part[1])
            ys = np.clip(low[1] + dy, -1, image.shape[0]) + 1
            xs = np.clip(low[0] + dx, -1, image.shape[1]) + 1
            total += weight[..., None] * padded[ys, xs]
    return total


def test_affine_steps_of_known_values_are_numpys():
    w, h, out = 90, 50, (40, 60)
    rng = np.random.default_rng(SEED)
    angle, tan = math.radians(30), math.tan(math.radians(10))
    align = A.ShiftToAlignWithOriginalImageBorder
    turn = about([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], w, h)  # anticlockwise if y points down
    grown = about([[1.5, 0], [0, 1.5]], w, h)
    cases = [
        (None, np.eye(3)),
        ([A.Translation(1, (3, -4))], shifted(3, -4)),
        ([A.Rotation(1, 30)], turn),
        ([A.UniformScaling(1, 1.5), A.Translation(1, (2, 1))], shifted(2, 1) @ grown),
        ([A.NonUniformScaling(1, (0.5, -2))], about([[0.5, 0], [0, -2]], w, h)),
        ([A.Shearing(1, (10, 0)), A.Rotation(0, 90)], about([[1, tan], [0, 1]], w, h)),
        ([A.UniformScaling(1, 1.5), align(1, align.Border.BOTTOM)], shifted(0, -12.5) @ grown),
        ([A.UniformScaling(1, 0.5), align(1, align.Border.LEFT)], shifted(-22.5, 0) @ about([[0.5, 0], [0, 0.5]], w, h)),
        ([A.Translation(1, (5, 5)), align(1, align.Border.TOP), align(1, align.Border.RIGHT)], np.eye(3)),
        ([A.UniformScaling(1, 0.5), A.ShiftInsideOriginalImage(1, True, True)], about([[0.5, 0], [0, 0.5]], w, h)),
        (
            [A.Selection(1, [0.0, 1.0], [A.Translation(1, (9, 9)), [A.Rotation(1, 30), A.Selection(1, [1], [A.Translation(1, (1, 2))])]])],
            shifted(1, 2) @ turn,
        ),
    ]
    image, points = photograph(rng, h, w), rng.uniform(0, 90, (5, 4)).astype(np.float32)
    intrinsics, lidar2img = rng.normal(size=(3, 3)).astype(np.float32), rng.normal(size=(4, 4))
    sample = {"image": image, "hw": np.array([h, w], np.int32), "probe": CORNERS, "boxes": points, "k": intrinsics, "p": lidar2img}
    anchors = {0.5: A.ResizingAnchor.CENTER, 0.0: A.ResizingAnchor.TOP_OR_LEFT, 1.0: A.ResizingAnchor.BOTTOM_OR_RIGHT}
    for k, (steps, wanted) in enumerate(cases):
        mode, keep = (A.ResizingMode.STRETCH, 0.0) if k % 3 == 0 else (list(A.ResizingMode)[k % 3], [0.5, 0.0, 1.0][k % 4 % 3])
        step = A(out, mode, None if k % 3 == 0 else anchors[keep], "image", None, ["k", "p"], ["probe", "boxes"], steps)
        (got,) = run([sample], [step])
        m = (fitted(mode.name, keep, w, h, out) @ wanted)[:2]
        np.testing.assert_allclose(matrix_of(got["probe"]), m, atol=2e-4, err_msg=str(k))
        flat = np.hstack([points.reshape(-1, 2), np.ones((10, 1))]) @ m.T
        np.testing.assert_allclose(got["boxes"], flat.reshape(5, 4), atol=2e-4)
        np.testing.assert_allclose(got["k"], homogeneous(m) @ intrinsics, atol=2e-4)
        bigger = np.eye(4)
        bigger[:3, :3] = homogeneous(m)
        np.testing.assert_allclose(got["p"], bigger @ lidar2img, atol=2e-4)
        assert np.abs(got["image"] - bilinear(image, m, out)).max() <= 1.01
        assert got["p"].dtype == np.float64 and got["image"].dtype == np.uint8
    (got,) = run([sample], [A((10, 20), A.ResizingMode.STRETCH, None, None, "hw", None, "probe")])
    assert got["hw"].tolist() == [10, 20] and np.allclose(matrix_of(got["probe"]), fitted("STRETCH", 0, w, h, (10, 20))[:2], atol=1e-5)


def test_affine_draws_are_shared_by_what_a_step_finds():
    """All cameras share the draws of a step. In a wrapper that applies the step to each camera, they draw separately. The decoder runs in the same pass as
    the warp."""
    rng = np.random.default_rng(SEED + 1)
    samples = [
        {"cams": [{"image": jpeg(photograph(rng, 60, 100)), "probe": CORNERS} for _ in range(3)], "side": {"probe": CORNERS}}
        for _ in range(6)
    ]
    steps = [A.UniformScaling(0.5, 1.2, 1.6), A.ShiftInsideOriginalImage(1, True, False), A.Translation(1, (0, -5), (0, 5))]
    step = A((48, 80), A.ResizingMode.CROP, A.ResizingAnchor.BOTTOM_OR_RIGHT, "image", None, None, "probe", steps)
    together = run(samples, [ImageDecoder("image", False), step])
    for wrapper in (DataGroupArrayInPathElementsAppliedStep(step, "cams"), DataGroupArrayWithNameElementsAppliedStep(step, "cams")):
        apart = run(samples, [ImageDecoder("image", False), wrapper])
        for sample in apart:
            assert len({sample["cams"][c]["probe"].tobytes() for c in range(3)}) == 3
            assert np.array_equal(sample["side"]["probe"], CORNERS)
    assert len({s["cams"][0]["probe"].tobytes() for s in together}) == 6
    for sample in together:
        probes = [sample["side"]["probe"], *(sample["cams"][c]["probe"] for c in range(3))]
        assert all(np.array_equal(p, probes[0]) for p in probes)
        m = matrix_of(probes[0])
        scale = m[0, 0] / 0.8
        assert abs(scale - 1) < 1e-5 or 1.2 <= scale <= 1.6
        assert m[0, 2] <= 1e-3 and m[0, 2] + m[0, 0] * 100 >= 80 - 1e-3  # the image covers the output's width
        assert abs((m[1, 2] + m[1, 1] * 30) - 24) <= 4.01
    definition = PipelineDefinition(
        ShuffledShardedInputCallable(Given(samples), 2), [ImageDecoder("image", False), step], use_parallel_external_source=False
    )
    text = definition.get_dali_pipeline(batch_size=2).explain()
    assert text.count("decoders.image") >= 3 and any("decoders.image" in line and "warp_affine" in line for line in text.splitlines()), text


def test_affine_errors():
    stretch = A.ResizingMode.STRETCH
    inside = A.ShiftInsideOriginalImage(1, True, True)
    for make, error, text in (
        (lambda: A((2, 2), stretch), ValueError, "must be provided"),
        (lambda: A((2, 2), stretch, None, "a", "b"), ValueError, "Only one of"),
        (lambda: A((2, 2), stretch, A.ResizingAnchor.CENTER, "a"), ValueError, "`resizing_anchor` has to be set to `None`"),
        (lambda: A((2, 2), A.ResizingMode.PAD, None, "a"), ValueError, "has to be selected"),
        (lambda: A((2, 2), stretch, None, "a", None, None, None, [A.Rotation(0.1, 3), inside]), ValueError, "Cannot perform `ShiftInside"),
        (
            lambda: A((2, 2), stretch, None, "a", None, None, None, [A.Selection(1, [1], [A.Shearing(1, (1, 1))]), inside]),
            ValueError,
            "Cannot perform",
        ),
        (lambda: A.Selection(1, [0.5, 0.4], [inside, inside]), AssertionError, "sum up to 1"),
        (
            lambda: A((2, 2), stretch, None, "a", None, None, None, [A.Translation(1, (3, 3), (2, 4))]),
            ValueError,
            "range from 3 to 2 is empty",
        ),
    ):
        with pytest.raises(error, match=text):
            make()
    sizes = [{"a": np.array([4, 5], np.int32), "b": np.array([4, 6], np.int32)}]
    with pytest.raises(Exception, match="4 x 5, and number 2 is 4 x 6"):
        run(sizes, [A((2, 2), stretch, None, None, ["a", "b"])])
    with pytest.raises(KeyError, match=r"projection matrices.*'p'.*The fields are: a, b"):
        run(sizes, [A((2, 2), stretch, None, None, "a", "p")])


# ---- images ----


def test_photometric_distortion_is_the_originals_arithmetic():
    rng = np.random.default_rng(SEED + 2)
    image = photograph(rng, 24, 31)
    yiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])

    def colors(x: np.ndarray, hue: float, saturation: float) -> np.ndarray:
        a = math.radians(hue)
        turn = np.array([[1, 0, 0], [0, math.cos(a), math.sin(a)], [0, -math.sin(a), math.cos(a)]])
        return x @ (np.linalg.inv(yiq) @ np.diag([1, saturation, saturation]) @ turn @ yiq).T

    def wanted(x: np.ndarray, mode: int, order: list[int]) -> np.ndarray:
        x = np.clip(x + 20 / 255, 0, 1)
        x = np.clip(x * 1.4, 0, 1) if mode else x
        x = colors(colors(x, 0, 1.3), 40, 1)
        return (x if mode else np.clip(x * 1.4, 0, 1))[..., order]

    samples = [{"a": image, "b": image.astype(np.float32) / 255} for _ in range(24)]
    fixed = ([20.0, 20.0], [40.0, 40.0], [1.4, 1.4], [1.3, 1.3])
    got = run(samples, [PhotoMetricDistorter("a", *fixed, 1, 1, 1, 1, 0.5)])
    orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0], [2, 0, 1], [1, 2, 0]]
    candidates = {(m, k): np.clip(wanted(image / 255, m, o), 0, 1) * 255 for m in (0, 1) for k, o in enumerate(orders)}
    found = [min(candidates, key=lambda c, s=s: np.abs(s["a"] - candidates[c]).max()) for s in got]
    assert all(np.abs(s["a"] - candidates[c]).max() <= 0.51 for s, c in zip(got, found, strict=True))
    assert {m for m, _ in found} == {0, 1} and len({o for _, o in found}) >= 3
    unchanged = run(samples, [PhotoMetricDistorter(name, *fixed, 0, 0, 0, 0, 0) for name in ("a", "b")])
    assert np.array_equal(unchanged[0]["a"], image) and np.allclose(unchanged[0]["b"], image / 255)
    bright = run(samples, [PhotoMetricDistorter("b", [0.1, 0.3], [0, 0], [1, 1], [1, 1], 1, 0, 0, 0, 0)])
    added = {float(np.median(s["b"][image < 100] - image[image < 100] / 255)) for s in bright}
    assert len(added) > 20 and min(added) >= 0.1 and max(added) < 0.3


class Transposed(PipelineStepBase):
    """Moves the channels of images to the front."""

    def __init__(self, layout: dict[str, str]) -> None:
        self.layout = layout

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        data["image"] = fn.transpose(data["image"], perm=[2, 0, 1], **self.layout)
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        return data_empty


def test_padding_to_tiles_layouts_and_range():
    rng = np.random.default_rng(SEED + 3)
    samples = [{"image": photograph(rng, h, w)} for h, w in ((33, 40), (33, 40))]
    steps = [TensorSizeAdder("image", "_hw"), ImageToTileSizePadder("image", (16, 32)), ImageRange01Normalizer("image")]
    got = run(samples, [*steps, AxesLayoutSetter("image", "HWC")])
    for before, after in zip(samples, got, strict=True):
        assert after["image_hw"].tolist() == [33, 40] and after["image_hw"].dtype == np.int32
        assert after["image"].shape == (64, 48, 3)
        np.testing.assert_allclose(after["image"][:33, :40], before["image"] / 255, atol=1e-6)
        assert not after["image"][33:].any() and not after["image"][:, 40:].any()
    planes = [{"image": s["image"].transpose(2, 0, 1).copy()} for s in samples]
    steps = [AxesLayoutSetter("image", "CHW"), TensorSizeAdder("image", "_hw"), ImageToTileSizePadder("image", (16, 32))]
    for before, after in zip(planes, run(planes, steps), strict=True):
        assert after["image_hw"].tolist() == [33, 40] and after["image"].shape == (3, 64, 48)
        assert np.array_equal(after["image"][:, :33, :40], before["image"])
    files = [{"image": jpeg(s["image"])} for s in samples]
    for layout in ({}, {"output_layout": "CHW"}):
        steps = [ImageDecoder("image", False), Transposed(layout), ImageToTileSizePadder("image", (16, 32))]
        for plain, padded in zip(run(files, steps[:2]), run(files, steps), strict=True):
            assert padded["image"].shape == (3, 64, 48) and np.array_equal(padded["image"][:, :33, :40], plain["image"])
    order = ShuffledShardedInputCallable(Given([{"image": s["image"]} for s in samples]), 2)
    text = (
        PipelineDefinition(order, [ImageToTileSizePadder("image", 8)], use_parallel_external_source=False)
        .get_dali_pipeline(batch_size=2)
        .explain()
    )
    assert "gather" not in text  # a gather would make each sample wait for the others


# ---- boxes, points, masks ----


def visible(b: np.ndarray, depths: np.ndarray, hw: tuple[int, int]) -> np.ndarray:
    """Returns which boxes are visible, by painting them from far to near."""
    canvas = np.full(hw, -1)
    for i in np.argsort(-depths, kind="stable"):
        x0, x1 = sorted((b[i, 0], b[i, 2]))
        y0, y1 = sorted((b[i, 1], b[i, 3]))
        x0, y0 = max(math.floor(x0), 0), max(math.floor(y0), 0)
        canvas[y0 : max(math.ceil(y1), 0), x0 : max(math.ceil(x1), 0)] = i
    return np.isin(np.arange(len(b)), canvas)


def test_visibility_is_that_of_painted_boxes():
    rng = np.random.default_rng(SEED + 4)
    samples = []
    for i in range(40):
        n = int(rng.integers(0, 14)) if i else 0
        depths = rng.integers(0, 6, n).astype(np.float32)  # some boxes are equally far
        samples.append({"image": np.zeros((30, 50, 3), np.uint8), "boxes": boxes(rng, n, 50, 30), "depths": depths})
    both = VisibleBboxSelector("boxes", "both", "image", depths_field_name="depths", minimum_bbox_size=4.0)
    covered = VisibleBboxSelector("boxes", ("seen",), image_hw=(30, 50), check_for_minimum_size=False, depths_field_name="depths")
    large = VisibleBboxSelector("boxes", "large", "image", check_for_bbox_occlusion=False, minimum_bbox_size=4.0)
    hidden = 0
    for sample, got in zip(samples, run(samples, [both, covered, large]), strict=True):
        b = sample["boxes"]
        seen = visible(b, sample["depths"], (30, 50))
        cut = np.clip(b, 0, np.array([50, 30, 50, 30], np.float32))
        size = (np.abs(cut[:, 2] - cut[:, 0]) >= 4) & (np.abs(cut[:, 3] - cut[:, 1]) >= 4)
        np.testing.assert_array_equal(got["seen"], seen)
        np.testing.assert_array_equal(got["large"], size)
        np.testing.assert_array_equal(got["both"], seen & size)
        hidden += int((~seen).sum())
    assert hidden > 10
    many = {
        "boxes": boxes(rng, 1500, 90, 60),
        "depths": rng.uniform(1, 60, 1500).astype(np.float32),
    }  # the step does not compare hidden boxes with others, so its work grows less than cubically
    (got,) = run(
        [many], [VisibleBboxSelector("boxes", "seen", image_hw=(60, 90), check_for_minimum_size=False, depths_field_name="depths")]
    )
    np.testing.assert_array_equal(got["seen"], visible(many["boxes"], many["depths"], (60, 90)))
    with pytest.raises(ValueError, match=r"More than one field 'boxes'.*a.boxes, b.boxes"):
        run(
            [{"a": {"boxes": b}, "b": {"boxes": b}}],
            [VisibleBboxSelector("boxes", "m", image_hw=(2, 2), check_for_bbox_occlusion=False, minimum_bbox_size=1)],
        )


def test_conditions_ranges_and_removal():
    rng = np.random.default_rng(SEED + 5)
    samples = []
    for i in range(30):
        groups = []
        for _ in range(2):
            n = int(rng.integers(0, 9)) if i else 0
            groups.append(
                {
                    "points": rng.uniform(-60, 60, (n, 3)).astype(np.float32),
                    "count": rng.integers(0, 3, (n, 1)).astype(np.int64),
                    "label": rng.integers(-1, 3, n).astype(np.int32),
                    "score": rng.uniform(-1, 1, n).astype(np.float32),
                    "flag": rng.integers(0, 2, n).astype(bool),
                    "wide": rng.integers(0, 99, (2, n, 3)).astype(np.int16),
                }
            )
        samples.append({"one": {"ann": groups[0]}, "two": {"ann": groups[1]}})
    low, high = (-51.2, -40, -3), (51.2, 40.5, 50)
    steps = [
        PointsInRangeCheck("points", "inside", low, high),
        AnnotationElementConditionEval("ann", "keep = (count >= 1 or -score > 0.25) and inside and not (label == -1 or flag)", False),
        ConditionalElementRemover("ann", "keep", ["points", "label", "wide"], [0, 0, 1], [2, 1, 3], False),
        DataGroupInPathAppliedStep(CoordinateCropper("points", (-5, -6, -7), (5, 6, 7)), "two"),
        DataGroupsWithNameAppliedStep(AnnotationElementConditionEval("ann", "flag = flag != 1 and score <= score", True), ["one", "two"]),
        ConditionalElementRemover("ann", "keep", [], [], [], True),
        DataGroupInPathAppliedStep(CoordinateCropper("wide", (3, 3, 3), (90, 90, 90)), "one"),
    ]
    # The shapes of `wide` differ after their first dimension, so only samples with equal numbers of elements fit into one batch.
    for sample in samples:
        (got,) = run([sample], steps)
        for name in ("one", "two"):
            given, ann = sample[name]["ann"], got[name]["ann"]
            p, count, score = given["points"], given["count"][:, 0], given["score"]
            inside = ((p >= np.float32(low)) & (p <= np.float32(high))).all(1)
            keep = ((count >= 1) | (-score > 0.25)) & inside & ~((given["label"] == -1) | given["flag"])
            np.testing.assert_array_equal(ann["inside"], inside)
            cropped = np.clip(p, (-5, -6, -7), (5, 6, 7)) if name == "two" else p
            np.testing.assert_array_equal(ann["points"], cropped[keep].astype(np.float32))
            np.testing.assert_array_equal(ann["label"], given["label"][keep])
            wide = given["wide"][:, keep]
            np.testing.assert_array_equal(ann["wide"], np.clip(wide, 3, 90) if name == "one" else wide)
            np.testing.assert_array_equal(ann["flag"], ~given["flag"])
            assert set(ann) == {"points", "count", "label", "wide", "inside", "flag"}


def test_removal_gives_ragged_batches_without_a_copy():
    rng = np.random.default_rng(SEED + 6)
    samples = [{"ann": {"p": rng.normal(size=(5, 2)).astype(np.float32), "keep": np.arange(5) < k}} for k in (5, 0, 3, 3)]
    order = ShuffledShardedInputCallable(Given(samples), 4)
    definition = PipelineDefinition(
        order, [ConditionalElementRemover("ann", "keep", ["p"], [0], [2], True)], use_parallel_external_source=False
    )
    pipe = definition.get_dali_pipeline(batch_size=4)
    assert [t.shape() for t in definition.get_pipeline(batch_size=4).run()[0]] == [[5, 2], [0, 2], [3, 2], [3, 2]]
    batch = next(iter(DALIStructuredOutputIterator(1, pipe, definition.check_and_get_output_data_structure())))["ann"]["p"]
    assert isinstance(batch, RaggedBatch) and batch.sample_sizes.tolist() == [5, 0, 3, 3] and batch.tensor.shape == (4, 5, 2)
    assert batch.mask.sum().item() == 11 and not batch.tensor[1].any()
    assert batch.with_padded_set_to(7.0).tensor.eq(7.0).sum().item() == 2 * 9 and batch.get_existence_weights().sum().item() == 2 * 11
    for i, k in enumerate((5, 0, 3, 3)):
        np.testing.assert_array_equal(batch.tensor[i, :k], samples[i]["ann"]["p"][:k])


def test_errors_of_masks_and_conditions():
    n, m = np.zeros((3, 2), np.float32), np.zeros(4, bool)
    sample = {"ann": {"p": n, "m": m}}
    for step, error, text in (
        (
            ConditionalElementRemover("ann", "m", ["p"], [0], [2], True),
            Exception,
            "the mask has 4 elements, and input 1 has 3 along its axis 0",
        ),
        (ConditionalElementRemover("ann", "mask", ["p"], [0], [2], True), KeyError, "'mask' in annotation at path 'ann'; there are: p, m"),
        (AnnotationElementConditionEval("ann", "x = m and q", False), ValueError, "'ann' does not have child 'q'; there are: p, m"),
        (AnnotationElementConditionEval("ann", "m = m", False), KeyError, "'m' cannot be added as it already exists"),
        (AnnotationElementConditionEval("ann", "x = p > 0", False), Exception, "one value for each object"),
        (PointsInRangeCheck("p", "m", (0, 0), (1, 1)), ValueError, "Cannot add 'm'"),
        (PointsInRangeCheck("p", "in", (0, 0, 0), (1, 1, 1)), Exception, "lo has 3 values for points of 2 components"),
        (
            BEVBBoxesTransformer3D("p", None, None, None, None, None, None, (0, 1), 2, None, None),
            Exception,
            "row of 2 values does not hold points with the 3",
        ),
    ):
        with pytest.raises(error, match=text):
            run([sample], [step])
    with pytest.raises(Exception, match=r"boolean_mask at test_structured_steps.py:\d+, ConditionalElementRemover at a\.\[1\]\.ann"):
        run(
            [{"a": [{"ann": sample["ann"]}] * 2}],
            [DataGroupInPathAppliedStep(ConditionalElementRemover("ann", "m", ["p"], [0], [2], True), ("a", 1))],
        )
    uneven = [{"ann": {"p": np.zeros((2, k), np.float32), "m": np.ones(2, bool)}} for k in (1, 2)]
    with pytest.raises(Exception, match=r"input 0, ann\.p: the elements of this sample have another shape"):
        run(uneven, [ConditionalElementRemover("ann", "m", ["p"], [0], [2], True)])
    with pytest.raises(AssertionError, match="do not match"):
        ConditionalElementRemover("ann", "m", ["p"], [0, 1], [2], True)


# ---- bird's-eye view ----


@pytest.mark.parametrize("part", ["rotation", "scaling", "translation", "nothing"])
def test_bev_augmentation_changes_only_what_its_parts_name(part):
    """Rotation, scaling and translation each change only the fields and the pose that they concern. Angles may exceed pi, and sizes may be integers."""
    sample = {
        "points": np.array([[1, 2, 3]], np.float32),
        "speeds": np.array([[4, 5, 6]], np.float32),
        "sizes": np.array([[2, 3, 4]], np.float32 if part == "scaling" else np.int32),
        "yaws": np.array([4.0, -9.0, 1.0], np.float32),
        "pose": np.eye(4),
    }
    ranges = {
        "rotation": ((0.5, 0.5), 2, None, None),
        "scaling": (None, None, (2.0, 2.0), None),
        "translation": (None, None, None, (1, 1, 1)),
    }
    step = BEVBBoxesTransformer3D("points", "speeds", "sizes", "yaws", None, "pose", None, *ranges.get(part, (None,) * 4))
    (got,) = run([sample], [step])
    changed = {name for name, value in sample.items() if got[name].dtype != value.dtype or not np.array_equal(got[name], value)}
    assert (
        changed
        == {
            "rotation": {"points", "speeds", "yaws", "pose"},
            "scaling": {"points", "speeds", "sizes", "pose"},
            "translation": {"points", "pose"},
            "nothing": set(),
        }[part]
    )


def test_bev_augmentation_moves_boxes_and_matrices_alike():
    rng = np.random.default_rng(SEED + 7)

    def pose() -> np.ndarray:
        q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        return np.vstack([np.hstack([q, rng.uniform(-5, 5, (3, 1))]), [0, 0, 0, 1]])

    samples = []
    for k in range(8):
        samples.append(
            {
                "centers": rng.uniform(-50, 50, (k, 3)).astype(np.float32),
                "speeds": rng.uniform(-5, 5, (k, 3)).astype(np.float32),
                "sizes": rng.uniform(1, 5, (k, 3)).astype(np.float32),
                "yaws": rng.uniform(-3.14, 3.14, k).astype(np.float32),
                "cams": [{"proj": rng.normal(size=(3, 4)).astype(np.float32)} for _ in range(2)],
                "ego_to_world": pose(),
                "world_to_ego": pose().astype(np.float32),
                "probe": np.vstack([np.zeros(3), np.eye(3)]).astype(np.float32),
            }
        )
    step = BEVBBoxesTransformer3D(
        ["centers", "probe"], "speeds", "sizes", "yaws", "proj", "ego_to_world", "world_to_ego", (-0.4, 0.9), 2, (0.9, 1.2), (1.0, 2.0, 0.5)
    )
    drawn = []
    for sample, got in zip(samples, run(samples, [step]), strict=True):
        t = got["probe"][0].astype(np.float64)
        linear = (got["probe"][1:].astype(np.float64) - t).T
        scale = np.cbrt(np.linalg.det(linear))
        angle = math.atan2(linear[1, 0], linear[0, 0])
        drawn.append((angle, scale, *t))
        assert np.allclose(linear @ linear.T, scale**2 * np.eye(3), atol=1e-4) and np.allclose(linear[2], [0, 0, scale], atol=1e-5)
        assert -0.4 <= angle <= 0.9 and 0.9 <= scale <= 1.2 and (np.abs(t) <= [1, 2, 0.5]).all()
        full = np.vstack([np.hstack([linear, t[:, None]]), [0, 0, 0, 1]])
        np.testing.assert_allclose(got["centers"], sample["centers"] @ linear.T + t, atol=1e-4)
        np.testing.assert_allclose(got["speeds"], sample["speeds"] @ linear.T, atol=1e-4)
        np.testing.assert_allclose(got["sizes"], sample["sizes"] * scale, atol=1e-4)
        turned = (sample["yaws"] + angle + math.pi) % (2 * math.pi) - math.pi
        np.testing.assert_allclose(got["yaws"], turned, atol=1e-5)
        for c in range(2):
            np.testing.assert_allclose(got["cams"][c]["proj"], sample["cams"][c]["proj"] @ np.linalg.inv(full), atol=1e-4)
        np.testing.assert_allclose(got["ego_to_world"], sample["ego_to_world"] @ np.linalg.inv(full), atol=1e-4)
        np.testing.assert_allclose(got["world_to_ego"], full @ sample["world_to_ego"], atol=1e-4)
        assert got["ego_to_world"].dtype == np.float64
    assert len(set(drawn)) == 8
    for axis in range(3):
        only = BEVBBoxesTransformer3D("probe", None, None, None, None, None, None, (0.3, 0.3), axis, None, None)
        corner = run(samples[:1], [only])[0]["probe"]
        a, b = [(1, 2), (2, 0), (0, 1)][axis]
        assert np.allclose(corner[1 + a, b], math.sin(0.3)) and np.allclose(corner[1 + axis, axis], 1)


# ---- heatmaps ----


def heatmap(sample: dict[str, Any], hw: tuple[int, int], image: tuple[int, int], classes: int) -> dict[str, np.ndarray]:
    ann = sample["ann"]
    scale, limit = np.array([hw[1] / image[1], hw[0] / image[0]] * 2), np.array([hw[1] - 1, hw[0] - 1] * 2)
    scaled = ann["boxes"] * scale
    cut = np.clip(scaled, 0, limit)
    center = np.clip(ann["centers"] * scale[:2], 0, limit[:2])
    size = np.abs(cut[:, 2:] - cut[:, :2])[:, ::-1]
    area = np.abs(scaled[:, 2:] - scaled[:, :2]).prod(1)
    active = (ann["label"] < classes) & (size.prod(1) >= 0.25 * area) & (size >= [[2, 1]]).all(1) & ann["valid"]
    pixel = np.floor(center).astype(int)
    maps = np.zeros((classes, *hw))
    y, x = np.mgrid[: hw[0], : hw[1]]
    for i in np.flatnonzero(active):
        lo, hi = np.minimum(cut[i, :2], cut[i, 2:]), np.maximum(cut[i, :2], cut[i, 2:])
        radius = np.clip(max(min(*(center[i] - lo), *(hi - center[i])), 0) * 0.8, 0.5, 10)
        dx, dy = x - pixel[i, 0], y - pixel[i, 1]
        near = (np.abs(dx) <= radius) & (np.abs(dy) <= radius)
        drawn = np.exp(-(dx**2 + dy**2) / (2 * (radius / 3) ** 2)) * near
        maps[ann["label"][i]] = np.maximum(maps[ann["label"][i]], drawn)
    return {"map": maps, "active": active, "pixel": pixel, "offset": center - pixel, "size": size, "cut": cut}


def test_heatmaps_are_numpys():
    rng = np.random.default_rng(SEED + 8)
    samples = []
    for k in range(12):
        b = boxes(rng, k, 200, 100)
        ann = {"boxes": b, "centers": ((b[:, :2] + b[:, 2:]) / 2 + rng.uniform(-3, 3, (k, 2))).astype(np.float32)}
        ann |= {"label": rng.integers(0, 4, k).astype(np.int32), "valid": rng.random(k) < 0.8}
        samples.append({"image": np.zeros((100, 200, 3), np.uint8), "hw": np.array([100, 200], np.int32), "ann": ann})
    names = ("active", "pixel", "offset", "size", "cut")
    step = BoundingBoxToHeatmapConverter(
        "ann", "boxes", "map", (25, 40), "image", None, "label", 3, (2, 1), None, True, "valid", "centers", *names
    )
    drawn = 0
    for sample, got in zip(samples, run(samples, [step]), strict=True):
        wanted = heatmap(sample, (25, 40), (100, 200), 3)
        for name in ("map", *names):
            np.testing.assert_allclose(got["ann"][name], wanted[name], atol=1e-4, err_msg=name)
        drawn += int(wanted["active"].sum())
    assert drawn > 5
    alone = BoundingBoxToHeatmapConverter(
        "ann", "boxes", "map", (25, 40), None, "hw", use_per_category_heatmap=False, min_fraction_area_clipping=0.0
    )
    for sample, got in zip(samples, run(samples, [alone]), strict=True):
        assert got["ann"]["map"].shape == (25, 40) and (got["ann"]["map"].max() == 1) == (len(sample["ann"]["boxes"]) > 0)
    with pytest.raises(KeyError, match="'image' was found; there are: pic, ann"):
        run([{"pic": samples[0]["image"], "ann": samples[0]["ann"]}], [step])
    with pytest.raises(KeyError, match="at 'ann' must not contain the field 'map'"):
        run(samples[:1], [step, step])


def test_boxes_without_a_centre_are_not_drawn():
    corners = np.array([[20, 20, 60, 60]] * 3, np.float32)
    centers = np.array([[np.nan, np.nan], [40, np.nan], [40, 40]], np.float32)
    step = BoundingBoxToHeatmapConverter(
        "ann",
        "boxes",
        "map",
        (8, 8),
        None,
        "hw",
        use_per_category_heatmap=False,
        center_opt_in_name="centers",
        is_active_opt_out_name="active",
    )
    (got,) = run([{"hw": np.array([80, 80], np.int32), "ann": {"boxes": corners, "centers": centers}}], [step])
    assert got["ann"]["active"].tolist() == [False, False, True] and np.argwhere(got["ann"]["map"] == 1).tolist() == [[4, 4]]


# ---- many fields ----


def test_samples_of_hundreds_of_fields_share_a_few_chains():
    rng = np.random.default_rng(SEED + 9)
    samples = [
        {
            "a": [rng.normal(size=(3, 2)).astype(np.float32) for _ in range(150)],
            "b": [np.float32(rng.normal(size=k % 5)) for k in range(70)],
        }
        for _ in range(3)
    ]
    steps = [DataGroupInPathAppliedStep(CoordinateCropper(k, (-1, -0.5), (1, 0.5)), "a") for k in range(150)]
    for sample, got in zip(samples, run(samples, steps), strict=True):
        for k in range(150):
            np.testing.assert_array_equal(got["a"][k], np.clip(sample["a"][k], np.float32([-1, -0.5]), np.float32([1, 0.5])))
        for k in range(70):
            np.testing.assert_array_equal(got["b"][k], sample["b"][k])
    order = ShuffledShardedInputCallable(Given(samples), 3)
    levels = PipelineDefinition(order, steps, use_parallel_external_source=False).get_dali_pipeline(batch_size=3).explain(True)["levels"]
    assert max(len(level["chains"]) for level in levels) == 16
