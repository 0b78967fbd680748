# SPDX-License-Identifier: Apache-2.0
"""stoker.structured: trees of fields, inputs, pipeline definitions and iterators. test_structured_steps.py tests the steps."""

from __future__ import annotations

import copy
import io
import json

import numpy as np
import pytest
from PIL import Image
from support import SEED, photograph
from test_structured_steps import run

torch = pytest.importorskip("torch")

from stoker import Pipeline, fn, types  # noqa: E402
from stoker.batching import RaggedBatch  # noqa: E402
from stoker.errors import InvalidArgumentError, StateError  # noqa: E402
from stoker.structured.inputs import (  # noqa: E402
    DataProvider,
    SamplerBase,
    SamplerInputCallable,
    SamplerInputIterable,
    SequenceSampler,
    ShuffledShardedInputCallable,
)
from stoker.structured.internal_helpers.helper_functions import get_as_data_node  # noqa: E402
from stoker.structured.internal_helpers.mini_parser import Lexer, Parser, TokenType  # noqa: E402
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup  # noqa: E402
from stoker.structured.processing_steps import (  # noqa: E402
    AffineTransformer,
    AnnotationElementConditionEval,
    AxesLayoutSetter,
    CoordinateCropper,
    DataGroupArrayInPathElementsAppliedStep,
    ImageDecoder,
    ImageMeanStdDevNormalizer,
    ImageToTileSizePadder,
    PaddingToUniform,
    PipelineStepBase,
    UnneededFieldRemover,
    VisibleBboxSelector,
)

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def jpeg(image: np.ndarray) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=92)
    return np.frombuffer(file.getvalue(), np.uint8)


class Cameras(DataProvider):
    """Two cameras with an image, boxes and a category for each box; also a time and a token. Sample i has i % 3 + 1 boxes in camera 0, and one more in
    camera 1."""

    def __init__(self, count: int = 7) -> None:
        rng = np.random.default_rng(SEED)
        self.images = [[photograph(rng, 40, 60) for _ in range(2)] for _ in range(count)]
        self.boxes = [[rng.uniform(0, 40, (i % 3 + 1 + c, 4)).astype(np.float32) for c in range(2)] for i in range(count)]

    @property
    def sample_data_structure(self) -> SampleDataGroup:
        camera = SampleDataGroup()
        camera.add_data_field("image", types.DALIDataType.UINT8)
        annotation = SampleDataGroup()
        annotation.add_data_field("bboxes", types.DALIDataType.FLOAT)
        annotation.add_data_field("categories", types.DALIDataType.INT32, {"car": 0, "person": 1, None: -1})
        camera.add_data_group_field("annotation", annotation)
        sample = SampleDataGroup()
        sample.add_data_group_field_array("cams", camera, 2)
        sample.add_data_field("timestamp", types.DALIDataType.FLOAT64)
        sample.add_data_field("token", types.DALIDataType.STRING)
        return sample

    def get_number_of_samples(self) -> int:
        return len(self.images)

    def get_data(self, sample_index: int) -> SampleDataGroup:
        sample = self.sample_data_structure
        for c in range(2):
            camera = sample["cams"][c]
            camera["image"] = jpeg(self.images[sample_index][c])
            camera["annotation"]["bboxes"] = self.boxes[sample_index][c]
            camera["annotation"]["categories"] = ["car", "tree", "person"][: len(self.boxes[sample_index][c])]
        sample["timestamp"] = 1.5e9 + sample_index / 3
        sample["token"] = f"sample-{'x' * sample_index}"
        return sample


def iterator(inputs, steps, batch_size=2, post=None, as_dict=True, batches=3, **kwargs) -> DALIStructuredOutputIterator:
    definition = PipelineDefinition(inputs, steps, use_parallel_external_source=False)
    pipe = definition.get_dali_pipeline(batch_size=batch_size, num_threads=2, **kwargs)
    return DALIStructuredOutputIterator(batches, pipe, definition.check_and_get_output_data_structure(), None, None, as_dict, post)


# ---- end to end ----


def test_a_pipeline_from_a_provider_to_tensors():
    data = Cameras()
    steps = [ImageDecoder("image", False), None, ImageMeanStdDevNormalizer("image", MEAN, STD)]
    loader = iterator(ShuffledShardedInputCallable(data, 2), steps)
    assert len(loader) == 3 and loader.dataset is loader
    for _ in range(2):  # checks two epochs
        seen = 0
        for step in loader:
            assert list(step) == ["cams", "timestamp", "token"] and list(step["cams"]) == [0, 1]
            assert step["timestamp"].dtype == torch.float64
            assert step["token"] == [f"sample-{'x' * (seen + i)}" for i in range(2)]
            for c in range(2):
                image, boxes = step["cams"][c]["image"], step["cams"][c]["annotation"]["bboxes"]
                assert image.shape == (2, 40, 60, 3) and image.dtype == torch.float32
                assert isinstance(boxes, RaggedBatch)  # the samples of a batch differ in their number of boxes
                for i in range(2):
                    assert step["timestamp"][i] == 1.5e9 + (seen + i) / 3
                    decoded = np.asarray(Image.open(io.BytesIO(jpeg(data.images[seen + i][c]).tobytes())))
                    wanted = (decoded - np.float32(MEAN)) / np.float32(STD)
                    assert np.abs(image[i].numpy() - wanted).max() <= 3.1 / 57  # decoders differ by a few levels
                    n = int(boxes.sample_sizes[i])
                    np.testing.assert_array_equal(boxes.tensor[i, :n].numpy(), data.boxes[seen + i][c])
                    assert boxes.mask[i].sum() == n
            seen += 2
        assert seen == 6


def test_a_custom_step_draws_and_calls_numpy():
    """One custom step has a branch on a random draw of fn; another computes a new field with a Python function on NumPy arrays."""

    class Shift(PipelineStepBase):
        def _process(self, data):
            for path in data.find_all_occurrences("bboxes"):
                boxes = data.get_item_in_path(path)
                if fn.random.coin_flip(probability=0.5):
                    boxes = boxes + 1000.0
                data.set_item_in_path(path, boxes)
            return data

        def _check_and_adjust_data_format_input_to_output(self, data_empty):
            return data_empty

    class Areas(PipelineStepBase):
        def _process(self, data):
            for path in data.find_all_occurrences("annotation"):
                group = data.get_item_in_path(path)
                group.add_data_field("areas", types.FLOAT)
                group["areas"] = fn.python_function(group["bboxes"], function=lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]))
            return data

        def _check_and_adjust_data_format_input_to_output(self, data_empty):
            for path in data_empty.find_all_occurrences("annotation"):
                data_empty.get_item_in_path(path).add_data_field("areas", types.FLOAT)
            return data_empty

    data = Cameras()
    order = ShuffledShardedInputCallable(data, 2)
    steps = [DataGroupArrayInPathElementsAppliedStep(Shift(), "cams"), Areas(), UnneededFieldRemover(["image", "categories"])]
    loader = iterator(order, steps, as_dict=False, enable_conditionals=True, seed=SEED)
    moved = set()
    for step, data_of in zip(loader, [(0, 1), (2, 3), (4, 5)], strict=True):
        assert isinstance(step, SampleDataGroup)
        for c in range(2):
            group = step["cams"][c]["annotation"]
            for i, k in enumerate(data_of):
                n = len(data.boxes[k][c])
                boxes, want = group["bboxes"].tensor[i, :n].numpy(), data.boxes[k][c]
                offset = 1000.0 if boxes[0, 0] >= 500 else 0.0
                moved.add((c, offset))
                np.testing.assert_allclose(boxes, want + np.float32(offset), atol=1e-3)
                np.testing.assert_allclose(
                    group["areas"].tensor[i, :n], (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), atol=1e-3
                )
    assert len(moved) >= 3  # each camera has its own draws
    pipe = loader.internal_iterator._pipes[0]
    assert "python_function" in pipe.explain()


def test_what_an_iterator_gives():
    """Tests fields that are declared ragged, padded fields, fields whose second dimension varies (refused), post_process_func, CreateAsDataLoaderObject and
    copies (refused)."""

    class Provider(DataProvider):
        @property
        def sample_data_structure(self):
            group = SampleDataGroup()
            group.add_data_field("ragged", types.INT32, ragged=True)
            group.add_data_field("padded", types.FLOAT)
            group.add_data_field("uneven", types.UINT8)
            return group

        def get_number_of_samples(self):
            return 4

        def get_data(self, sample_index):
            group = self.sample_data_structure
            group["ragged"] = np.full((3, 2), sample_index)
            group["padded"] = np.full((sample_index + 1, sample_index + 1), 1.0)
            group["uneven"] = np.zeros((2, sample_index + 1))
            return group

    order = ShuffledShardedInputCallable(Provider(), 2)
    steps = [PaddingToUniform("padded", -7.0), UnneededFieldRemover(["uneven"])]
    step = next(iter(iterator(order, steps, post=lambda d: {**d, "more": 1})))
    assert isinstance(step["ragged"], RaggedBatch) and step["ragged"].sample_sizes.tolist() == [3, 3] and step["more"] == 1
    assert step["padded"].tolist() == [[[1.0, -7.0], [-7.0, -7.0]], [[1.0, 1.0], [1.0, 1.0]]]
    with pytest.raises(ValueError, match=r"field 'uneven'.*\(2, 1\), \(2, 2\).*PaddingToUniform"):
        next(iter(iterator(order, [UnneededFieldRemover(["padded"])])))

    definition = PipelineDefinition(order, steps, use_parallel_external_source=False)
    pipe = definition.get_dali_pipeline(batch_size=2, num_threads=1)
    blueprint = definition.check_and_get_output_data_structure()
    assert pipe.num_outputs == len(blueprint.field_names_flat) == len(pipe.run()) == 2
    masked = DALIStructuredOutputIterator.CreateAsDataLoaderObject(2, pipe, blueprint, contained_dataset="data")
    assert isinstance(masked, torch.utils.data.DataLoader) and masked.dataset == "data" and len(masked) == 2
    assert isinstance(next(iter(masked))["ragged"], RaggedBatch)
    with pytest.raises(RuntimeError, match="multiprocessing_context"):
        masked.multiprocessing_context  # noqa: B018
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be pickled or copied: .* Make another pipeline with another iterator"):
            duplicate(masked)


# ---- the tree ----


def test_a_tree_knows_its_fields():
    blueprint = Cameras(1).sample_data_structure
    assert blueprint.field_names_flat[:2] == ("cams.[0].image", "cams.[0].annotation.bboxes")
    assert blueprint.field_types_flat[-2:] == (types.FLOAT64, types.UINT8)
    assert blueprint.get_type_of_field("token") == types.STRING
    assert blueprint.is_data_group_field_array("cams") and not blueprint.is_array() and len(blueprint["cams"]) == 2
    assert blueprint.find_all_occurrences("bboxes") == [("cams", c, "annotation", "bboxes") for c in range(2)]
    assert blueprint.path_exists(("cams", 1, "image")) and not blueprint.path_exists(("cams", 2, "image"))
    assert blueprint.path_exists_and_is_data_group_field(("cams", 1)) and not blueprint.path_exists_and_is_data_group_field("nothing")
    assert blueprint.get_type_of_item_in_path(("cams", 0)) is SampleDataGroup and blueprint.get_type_of_item_in_path(()) is SampleDataGroup
    assert "token: " in str(blueprint) and "is set" not in blueprint.get_string_no_details()
    other = blueprint.get_copy()
    assert blueprint.type_matches(other) and blueprint.get_flat_index_first_discrepancy_to_other(other) == -1
    other.change_type_of_data_and_remove_data(("cams", 1, "image"), types.FLOAT)
    assert not blueprint.type_matches(other) and blueprint.get_flat_index_first_discrepancy_to_other(other) == 3
    other.remove_all_occurrences("annotation")
    assert other.field_names_flat == ("cams.[0].image", "cams.[1].image", "timestamp", "token")
    array = SampleDataGroup.create_data_field_array(types.INT8, 3)
    assert array.is_data_field_array() and array.contained_top_level_field_names == (0, 1, 2)
    with pytest.raises(ValueError, match="'here' does not have child 'x'; there are: cams, timestamp"):
        blueprint.check_has_children(data_field_children=["timestamp", "x"], current_name="here")


def test_values_are_converted_and_mapped():
    sample = Cameras(1).sample_data_structure
    sample["timestamp"] = 3
    assert sample["timestamp"].dtype == np.float64 and sample["timestamp"].shape == ()
    annotation = sample["cams"][0]["annotation"]
    annotation["categories"] = [["car", "bus"], ["person", "car"]]
    assert annotation["categories"].tolist() == [[0, -1], [1, 0]] and annotation["categories"].dtype == np.int32
    annotation["categories"] = np.array(["person", "car"])
    assert annotation["categories"].tolist() == [1, 0]
    annotation["categories"] = np.array([5, 6])
    assert annotation["categories"].tolist() == [5, 6]
    sample["token"] = "Größe"
    assert sample["token"] == "Größe" and sample.get_data()[-1].dtype == np.uint8
    filled = sample.get_empty_like_self()
    filled.set_data(sample.get_data())
    assert filled.to_dictionary()["token"] == "Größe" and filled.to_dictionary()["cams"][0]["image"] is None
    sample.set_apply_mapping(False)
    with pytest.raises(ValueError, match="'categories'"):
        annotation["categories"] = ["car"]
    sample.set_do_convert(False)
    annotation["categories"] = ["car"]
    assert annotation["categories"] == ["car"]


def test_errors_of_a_tree_name_the_path_and_its_children():
    sample = Cameras(1).sample_data_structure
    with pytest.raises(KeyError, match="'imag'; there are: image, annotation"):
        sample["cams"][0]["imag"]
    with pytest.raises(KeyError, match=r"'cams.\[5\]' is not there; there are: 0, 1"):
        sample.get_item_in_path(("cams", 5, "image"))
    with pytest.raises(KeyError, match="'timestamp' is a data field, without children"):
        sample.get_item_in_path(("timestamp", "x"))
    with pytest.raises(KeyError, match="'token' cannot be added as it already exists"):
        sample.add_data_field("token", types.INT8)
    with pytest.raises(KeyError, match=r"types do not match: it has image.*no further field"):
        sample["cams"][0] = SampleDataGroup()
    with pytest.raises(AssertionError, match="mapping"):
        sample.add_data_field("text", types.STRING, {"a": 1})
    with pytest.raises(ValueError, match="1 values for 8 data fields: cams"):
        sample.set_data([1])
    group = SampleDataGroup()
    group.add_data_field("class", types.INT32, {"car": 0})
    with pytest.raises(KeyError, match="'class': its mapping has no 'bus'; it has 'car'"):
        group["class"] = ["car", "bus"]


def test_numbers_that_a_type_cannot_hold_are_refused():
    group = SampleDataGroup()
    for kind in (types.UINT8, types.INT32, types.INT64, types.FLOAT, types.FLOAT64, types.BOOL):
        group.add_data_field(str(kind), kind)
    for kind, value, text in (
        (types.UINT8, np.array([3, 256]), "256 is outside of what uint8 can hold, 0 to 255"),
        (types.UINT8, np.array([-1], np.int8), "-1 is outside"),
        (types.INT32, np.array([2**31], np.uint32), "2147483648 is outside"),
        (types.INT32, np.array([1.0, np.nan]), "nan is outside"),
        (types.INT64, np.array([2**63], np.uint64), "9223372036854775808 is outside"),
        (types.INT64, np.array([2.0**63]), "outside of what int64"),
        (types.UINT8, np.linspace(0, 1, 6), "0.2 is no whole number, and uint8 holds only these"),
        (types.INT32, [1, 1.9, -0.5], "1.9 is no whole number, and int32"),
        (types.INT32, -0.5, "-0.5 is no whole number, and int32"),
        (types.INT64, np.array([3, 2.5], object), "2.5 is no whole number, and int64"),
        (types.INT64, np.array([1e15 + 0.5]), "1000000000000000.5 is no whole number"),
        (types.BOOL, [0, 1, 2], "2.* is none of True, False, 1 and 0"),
        (types.BOOL, np.array([[0, 255]], np.uint8), "255.* is none of True, False, 1 and 0: give `value != 0`"),
        (types.BOOL, [1.0, float("nan")], "nan.* is none of True, False, 1 and 0"),
        (types.BOOL, [0.0, 0.1], "0.1.* is none of True, False, 1 and 0"),
        (types.BOOL, ["no"], "'no'.* is none of True, False, 1 and 0"),
        (types.BOOL, np.array([True, None]), "None is none of True, False, 1 and 0"),
        (types.INT64, np.array([-np.inf], np.float16), "-inf is outside of what int64"),
        (types.FLOAT, np.array([1e300]), "1e.300 is outside of what float32"),
        (types.UINT8, [300], "uint8|out of bounds"),
    ):
        with pytest.raises(ValueError, match=text):
            group[str(kind)] = value
    for kind, value in ((types.UINT8, np.array([0, 255])), (types.FLOAT, np.array([np.inf, 3.4e38])), (types.BOOL, np.array([0, 1]))):
        group[str(kind)] = value
        np.testing.assert_allclose(group[str(kind)], value.astype(group[str(kind)].dtype))
    for kind, value in ((types.UINT8, np.ones((2, 3)) * 2), (types.INT32, [1.0, -0.0]), (types.INT64, np.array([2**62, 3], object))):
        group[str(kind)] = value
        assert np.array_equal(group[str(kind)], value) and group[str(kind)].dtype == types.to_numpy_type(kind)
    for value in ([True, False], [1, 0], np.array([1.0, 0.0]), np.array([True, 0], object), np.bool_(True), True, 1, []):
        group[str(types.BOOL)] = value
        assert group[str(types.BOOL)].dtype == bool and np.array_equal(group[str(types.BOOL)], np.array(value, bool))


def test_errors_of_operators_name_field_and_place():
    order = ShuffledShardedInputCallable(Cameras(), 2)
    boxes = r"cams.\[[01]\].annotation.bboxes"

    class Wrong(PipelineStepBase):
        def _process(self, data):
            data.set_item_in_path(("cams", 1, "annotation", "bboxes"), fn.cast(data["timestamp"], dtype=types.INT32))
            return data

        def _check_and_adjust_data_format_input_to_output(self, data_empty):
            return data_empty

    visible = VisibleBboxSelector("bboxes", "m", image_hw=(9, 9), depths_field_name="image", minimum_bbox_size=2)
    for step, error, text in (
        (
            AffineTransformer((9, 9), AffineTransformer.ResizingMode.STRETCH, None, "image"),
            Exception,
            r"AffineTransformer at cams.\[0\].image",
        ),
        (AxesLayoutSetter("bboxes", "HWC"), Exception, rf"AxesLayoutSetter at {boxes}"),
        (CoordinateCropper("bboxes", (0, 0, 0), (1, 1, 1)), Exception, rf"CoordinateCropper at {boxes}"),
        (ImageToTileSizePadder("categories", 8), Exception, r"at cams.\[[01]\].annotation.categories"),
        (DataGroupArrayInPathElementsAppliedStep(visible, "cams"), Exception, rf"VisibleBboxSelector at {boxes}"),
        (AnnotationElementConditionEval("annotation", "m = bboxes > 1", False), Exception, r"at cams.\[[01]\].annotation \(bboxes\)"),
        (Wrong(), ValueError, r"'cams.\[1\].annotation.bboxes' is declared as"),
    ):
        with pytest.raises(error, match=text):
            PipelineDefinition(order, [step], use_parallel_external_source=False).get_dali_pipeline(batch_size=2).run()


def test_boxes_of_a_flipped_image_keep_the_order_of_their_corners():
    """A flip moves points one by one. It reorders the corners of boxes (bbox_field_names), so that the lower one is first; rows that are not boxes are
    refused."""
    rng = np.random.default_rng(SEED + 21)
    low = rng.uniform(0, 40, (9, 2))
    given = np.hstack([low, low + rng.uniform(1, 20, (9, 2))]).astype(np.float32)
    A = AffineTransformer
    flip = [A.NonUniformScaling(1.0, (-1, -1))]
    step = A((30, 80), A.ResizingMode.STRETCH, None, "image", None, None, "points", flip, bbox_field_names=["boxes", "wide"])
    sample = {"image": np.zeros((60, 80, 3), np.uint8), "points": given, "boxes": given, "wide": given.astype(np.float64)}
    (got,) = run([sample], [step])
    moved = np.array([80, 30] * 2) - given * [1, 0.5, 1, 0.5]
    np.testing.assert_allclose(got["points"], moved, atol=1e-4)
    for name in ("boxes", "wide"):
        np.testing.assert_allclose(got[name], moved[:, [2, 3, 0, 1]], atol=1e-4)
    with pytest.raises(Exception, match=r"row of 2 values does not hold boxes of two points.*AffineTransformer at boxes"):
        run([{**sample, "boxes": given[:, :2]}], [step])


def test_boxes_of_a_turned_image_enclose_their_corners():
    rng = np.random.default_rng(SEED + 22)
    low = rng.uniform(0, 40, (9, 2))
    given = np.hstack([low, low + rng.uniform(1, 20, (9, 2))]).astype(np.float32)
    corners = given[:, [0, 1, 2, 1, 2, 3, 0, 3]]
    A = AffineTransformer
    for turn in (A.Rotation(1.0, 30), A.Rotation(1.0, 300), A.Shearing(1.0, [30, -10]), A.NonUniformScaling(1.0, (-0.5, 2))):
        step = A(
            (30, 80),
            A.ResizingMode.STRETCH,
            None,
            "image",
            point_field_names="points",
            transformation_steps=[turn],
            bbox_field_names="boxes",
        )
        (got,) = run([{"image": np.zeros((60, 80, 3), np.uint8), "points": corners, "boxes": given}], [step])
        moved = got["points"].reshape(9, 4, 2)
        assert np.array_equal(got["boxes"], np.hstack([moved.min(1), moved.max(1)]))  # to the last bit: rounding keeps the order of values


def test_errors_of_definitions():
    class Wrong(PipelineStepBase):
        def _process(self, data):
            return data

        def _check_and_adjust_data_format_input_to_output(self, data_empty):
            data_empty.remove_field("token")
            return data_empty

    class Cast(PipelineStepBase):
        def _process(self, data):
            data["timestamp"] = fn.cast(data["timestamp"], dtype=types.FLOAT)
            return data

        def _check_and_adjust_data_format_input_to_output(self, data_empty):
            return data_empty

    order = ShuffledShardedInputCallable(Cameras(), 2)
    for step, error, text in (
        (ImageDecoder("picture", False), KeyError, "'picture'.*The fields are: cams.\\[0\\].image"),
        (ImageDecoder("bboxes", False), ValueError, r"'cams.\[0\].annotation.bboxes' is of DALIDataType.FLOAT"),
        (ImageMeanStdDevNormalizer("annotation", 0, 1), ValueError, r"'cams.\[0\].annotation' is a group"),
        (Wrong(), AssertionError, "Wrong: _process returned.*token"),
        (Cast(), ValueError, "'timestamp' is declared as DALIDataType.FLOAT64.*DALIDataType.FLOAT"),
        (DataGroupArrayInPathElementsAppliedStep(Cast(), ("cams", 0)), ValueError, "not a data group field array: its children are image"),
    ):
        with pytest.raises(error, match=text):
            PipelineDefinition(order, [step], use_parallel_external_source=False).get_dali_pipeline(batch_size=2)
    # Batches of 4 would leave out 3 of 7 samples.
    with pytest.raises(ValueError, match="made for batches of 2, and the pipeline has batches of 4"):
        PipelineDefinition(order, []).get_dali_pipeline(batch_size=4)
    with pytest.raises(ValueError, match="Standard deviation"):
        ImageMeanStdDevNormalizer("image", 0, 0)


# ---- inputs ----


def indices(inputs, batch_size: int, epochs: int, limit: int = 99) -> list[list[list[float]]]:
    """Returns the indices of the samples by epoch and batch; a sample's time is its index."""
    keep = UnneededFieldRemover(["cams", "token"])
    loader = iterator(inputs, [keep], batch_size)
    found = []
    for _ in range(epochs):
        found.append([[round((t - 1.5e9) * 3) for t in step["timestamp"].tolist()] for _, step in zip(range(limit), loader, strict=False)])
    return found


def test_shuffled_shards_share_an_epoch():
    data = Cameras(11)
    whole = np.random.default_rng(4 + 1).permutation(11)  # the sampler seeds each epoch with seed + epoch; this is the order of epoch 1
    for shard in range(2):
        order = ShuffledShardedInputCallable(data, 2, shard, 2, True, 4)
        assert order.length == 2
        assert indices(order, 2, 2)[1] == whole[5 * shard : 5 * shard + 4].reshape(2, 2).tolist()
    with pytest.raises(ValueError, match="shard_id is 2"):
        ShuffledShardedInputCallable(data, 2, 2, 2)


def slots(lengths: list[int], size: int, seed: int, count: int) -> list[list[int]]:
    """Returns the first `count` batches that a SequenceSampler must give, each with one sample for each of the `size` slots."""
    first = np.cumsum([0, *lengths])
    out = []
    for slot in range(size):
        rng, seen = np.random.default_rng(seed), []
        while len(seen) < count:
            for k in rng.permutation(len(lengths))[slot::size]:
                seen += range(first[k], first[k + 1])
        out.append(seen[:count])
    return np.transpose(out).tolist()


def test_each_slot_follows_its_sequences_on_any_number_of_ranks():
    lengths, data = [3, 1, 4, 2, 2], Cameras(12)
    wanted = slots(lengths, 4, 9, 8)
    for ranks in (1, 2, 4):
        for kind in (SamplerInputIterable, lambda *a: SamplerInputCallable(a[0], a[1], 8, 4, *a[2:])):
            got = [indices(kind(data, SequenceSampler(4, lengths, 9), r, ranks), 4 // ranks, 1, 8)[0] for r in range(ranks)]
            assert [[i for part in parts for i in part] for parts in zip(*got, strict=True)] == wanted
    with pytest.raises(AssertionError, match="must be at least the total batch size: there are 2 for 3"):
        SequenceSampler(3, [1, 1], 0)
    with pytest.raises(RuntimeError, match="not epoch-based"):
        SequenceSampler(1, [1], 0).reset()


def test_samplers_with_epochs():
    class Twos(SamplerBase):
        length, is_epoch_based = 2, True

        def __init__(self):
            self.epoch, self.at = 0, 0

        def get_next_batch_indices(self):
            if self.at == 2:
                raise StopIteration
            self.at += 1
            return [self.epoch, self.at]

        def reset(self):
            self.epoch, self.at = self.epoch + 1, 0

    data = Cameras(5)
    wanted = [[[e, 1], [e, 2]] for e in range(3)]
    assert indices(SamplerInputIterable(data, Twos()), 2, 3) == wanted
    assert indices(SamplerInputCallable(data, Twos(), 6, 4), 2, 3) == wanted
    with pytest.raises(RuntimeError, match="max_num_iterations=2"):
        indices(SamplerInputCallable(data, Twos(), 2, 0), 2, 3)


def test_a_sampler_whose_batches_differ_in_size_is_refused():
    class Short(SamplerBase):
        length, is_epoch_based = 3, True

        def __init__(self):
            self.reset()

        def get_next_batch_indices(self):
            return next(self.batches)

        def reset(self):
            self.batches = iter([[0, 1], [2, 3], [4]])

    assert SamplerInputCallable(Cameras(5), Short(), 2, 0).batches == [[[0, 1], [2, 3]]]
    with pytest.raises(ValueError, match="batch 2 of the sampler has 1 samples, and its first batch has 2"):
        SamplerInputCallable(Cameras(5), Short(), 6, 0)


def test_sequences_continue_where_a_state_was_saved():
    """A state resumes in the middle of sequences, with the same draws of steps, in worker processes or with another number of threads."""
    data = Cameras(12)
    step = AffineTransformer(
        (8, 8), AffineTransformer.ResizingMode.STRETCH, None, "image", None, None, "bboxes", [AffineTransformer.Rotation(1, -9, 9)]
    )
    steps = [ImageDecoder("image", False), step, UnneededFieldRemover(["categories", "token"])]

    def pipeline(parallel: bool, **kwargs):
        order = SamplerInputCallable(data, SequenceSampler(2, [3, 4, 5], 1), 8, 4)
        return PipelineDefinition(order, steps, use_parallel_external_source=parallel).get_dali_pipeline(batch_size=2, seed=3, **kwargs)

    def values(pipe, count: int) -> list[bytes]:
        return [b"".join(np.asarray(sample).tobytes() for output in pipe.run() for sample in output) for _ in range(count)]

    first = pipeline(False, num_threads=2)
    whole = values(first, 2)
    state = first.checkpoint()
    whole += values(first, 4)
    assert len(set(whole)) == 6
    for parallel in (False, True):
        assert values(pipeline(parallel, num_threads=1, checkpoint=state), 4) == whole[2:]


class Permutations(SamplerBase):
    """Shuffles the samples in each epoch. Only its calls of reset() advance it to the next epoch, so a restored run has to repeat them."""

    length, is_epoch_based = 0, True

    def __init__(self, count: int, size: int) -> None:
        self.size, self.length = size, count // size
        self.rng = np.random.default_rng(3)
        self.count = count
        self.reset()

    def get_next_batch_indices(self) -> list[int]:
        return next(self.batches)

    def reset(self) -> None:
        order = self.rng.permutation(self.count)
        self.batches = iter(order[: self.length * self.size].reshape(-1, self.size).tolist())


@pytest.mark.parametrize("kind", ["sequences", "epochs"])
@pytest.mark.parametrize("form", ["iterable", "callable"])
def test_an_order_continues_after_any_batch_on_any_number_of_ranks(kind, form):
    """A sampler with a state of its own gives the same batches after a restore, also if the state is of another number of ranks."""
    data, steps = Cameras(12), [UnneededFieldRemover(["cams", "token"])]

    def pipeline(rank: int, ranks: int, state: bytes | None = None) -> Pipeline:
        sampler = SequenceSampler(4, [3, 1, 4, 2, 2], 9) if kind == "sequences" else Permutations(12, 4)
        order = SamplerInputIterable(data, sampler, rank, ranks)
        if form == "callable":
            order = SamplerInputCallable(data, sampler, 30, 4, rank, ranks)
        definition = PipelineDefinition(order, steps, use_parallel_external_source=False)
        return definition.get_dali_pipeline(batch_size=4 // ranks, num_threads=1, checkpoint=state)

    def taken(pipe: Pipeline, count: int) -> list[list[float]]:
        """Returns the times in the next `count` batches. An epoch's end is an empty list."""
        found: list[list[float]] = []
        for _ in range(count):
            try:
                found.append(pipe.run()[0].as_array().ravel().tolist())
            except StopIteration:
                pipe.reset()
                found.append([])
        return found

    whole = taken(pipeline(0, 1), 14)
    assert whole.count([]) == (3 if kind == "epochs" else 0)
    for count in range(9):
        part = pipeline(0, 2)
        taken(part, count)
        state = part.checkpoint()
        for ranks in (1, 2, 4):
            parts = [taken(pipeline(rank, ranks, state), 5) for rank in range(ranks)]
            joined = [[t for part in batch for t in part] for batch in zip(*parts, strict=True)]
            assert joined == whole[count : count + 5], (count, ranks)


@pytest.mark.parametrize("by", ["pipeline", "iterator"])
def test_a_state_of_another_shuffled_order_is_refused(by):
    """Each shard has a part of its own of the epoch, so with other shards some samples would come twice and others never."""

    def made(batch=2, state=None, count=12, shuffle=True, shards=1, seed=3):
        order = ShuffledShardedInputCallable(Cameras(count), np.int64(batch), 0, shards, shuffle, seed)
        definition = PipelineDefinition(order, [UnneededFieldRemover(["cams", "token"])], use_parallel_external_source=False)
        pipe = definition.get_dali_pipeline(batch_size=batch, num_threads=1, checkpoint=state)
        return pipe, DALIStructuredOutputIterator(order.length, pipe, definition.check_and_get_output_data_structure())

    def times(batches):
        return [batch["timestamp"].flatten().tolist() for batch in batches]

    def saved(pair):
        return pair[0].checkpoint() if by == "pipeline" else pair[1].internal_iterator.checkpoints()[0]

    pair = made()
    batches = iter(pair[1])
    times([next(batches) for _ in range(3)])
    in_mid_epoch, whole = saved(pair), times(batches)
    assert len(whole) == 3 and times(made(state=in_mid_epoch)[1]) == whole
    others = {
        "batch_size": {"batch": 3},
        "num_shards": {"shards": 2},
        "samples": {"count": 13},
        "seed": {"seed": 4},
        "shuffle": {"shuffle": False},
    }
    for name, other in others.items():
        with pytest.raises(
            StateError, match=f"of an order with .*give the {name if name != 'shuffle' else 'seed'} of the run that was saved"
        ):
            made(state=in_mid_epoch, **other)[0].build()
    state = saved(pair)
    for other in others.values():  # the next epoch may have another order
        assert times(made(state=state, **other)[1]) == times(made(state=state, **other)[1]) != []
    old = json.loads(in_mid_epoch)
    old.pop("iterator")
    assert times(made(state=json.dumps(old).encode())[1]) == whole  # a state of an older version has no facts to compare


def test_a_state_needs_a_sampler_that_has_not_begun():
    data, sampler = Cameras(12), Permutations(12, 4)
    definition = PipelineDefinition(SamplerInputIterable(data, sampler), [UnneededFieldRemover(["cams", "token"])])
    pipe = definition.get_dali_pipeline(batch_size=4, num_threads=1)
    pipe.run()
    again = definition.get_dali_pipeline(batch_size=4, num_threads=1, checkpoint=pipe.checkpoint())
    with pytest.raises(StateError, match="make a new sampler and a new SamplerInputIterable"):
        again.run()


# ---- conditions ----


def test_conditions_are_parsed():
    parse = lambda text: str(Parser(text).parse())  # noqa: E731
    assert parse("x = (a >= 1 or b > 2) and not c") == "'x' = <{{('a' >= 1) or ('b' > 2)} and not ['c']}>"
    assert parse("r=-_b1<10.5 and -c > -2e1") == "'r' = <{(-('_b1') < 10.5) and (-('c') > -(2e1))}>"
    assert parse("r = a or b and c == 1") == "'r' = <{'a' or {'b' and ('c' == 1)}}>"
    assert parse("r = not a < 3") == "'r' = <(not ['a'] < 3)>"  # "not" binds more tightly than "<", as in the original library
    lexer = Lexer("a1 >= .5")
    assert [lexer.next_token().type for _ in range(5)] == [
        TokenType.VARIABLE,
        TokenType.COMPARISON,
        TokenType.LITERAL,
        *[TokenType.EOL] * 2,
    ]
    for text, why in (
        ("a < 3", "must start with `<res_var_name> = ...`"),
        ("x = a < b < c", "no further comparison"),
        ("x = (a", r"at position 6 it ends where '\)' is expected"),
        ("x = a)", r"at position 5 there is '\)' where the end"),
        ("x = ", "a name, a number"),
        ("x = a & b", "'&' at position 6"),
        ("x = 1.2.3", "'1.2.3' at position 4 is not a number"),
    ):
        with pytest.raises(ValueError, match=why):
            Parser(text).parse()


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, [1, 2**40], np.uint32(2**32 - 1), 2**64 - 1, 1e39, [0.0, -1e300]])
def test_constants_that_do_not_fit_their_type_are_refused(value):
    with Pipeline(1, 1, None), pytest.raises(InvalidArgumentError, match="which is too small for it: give"):
        get_as_data_node(value)


@pytest.mark.parametrize("value", [2**31 - 1, -(2**31), 2**70, True, [[1, 2]], 3e38, float("inf")])
def test_constants_that_fit_keep_their_value(value):
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(get_as_data_node(value))
    made = pipe.run()[0].as_array()[0]
    np.testing.assert_array_equal(made, np.asarray(value).astype(made.dtype))
    assert made.dtype == (np.float32 if isinstance(value, float) or value == 2**70 else np.int32)


@pytest.mark.parametrize("convert", [True, False])
def test_masked_values_are_refused(convert: bool) -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    group = SampleDataGroup()
    group.add_data_field("a", types.FLOAT)
    group.set_do_convert(convert)
    if convert:
        with pytest.raises(ValueError, match=r"field 'a' of .*1 of 2 values of a numpy\.ma\.MaskedArray are masked, .* \.filled\(0\)"):
            group["a"] = masked
    else:
        group["a"] = masked
    group["a"] = masked.filled(7)
    assert group["a"].tolist() == [7, 2]
    with pytest.raises(ValueError, match="are masked"):
        get_as_data_node(masked)
