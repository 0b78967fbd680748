# SPDX-License-Identifier: Apache-2.0
"""stoker.structured: what data providers return, and how fields of special names and types arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stoker import fn, types  # noqa: E402
from stoker.errors import InvalidArgumentError, ShapeError  # noqa: E402
from stoker.structured.inputs import (  # noqa: E402
    DataProvider,
    SamplerBase,
    SamplerInputCallable,
    SamplerInputIterable,
    ShuffledShardedInputCallable,
)
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup  # noqa: E402
from stoker.structured.processing_steps import (  # noqa: E402
    CoordinateCropper,
    PaddingToUniform,
    PipelineStepBase,
    TensorSizeAdder,
    UnneededFieldRemover,
)


def tree(**fields: Any) -> SampleDataGroup:
    made = SampleDataGroup()
    for name, kind in fields.items():
        if isinstance(kind, SampleDataGroup):
            made.add_data_group_field(name, kind)
        else:
            made.add_data_field(name, *(kind if isinstance(kind, tuple) else (kind,)))
    return made


class Made(DataProvider):
    """Fills a copy of `blueprint` by fill(sample, index). Returns the result of fill, or the copy if that is None. sample_data_structure is always the same
    object."""

    def __init__(self, blueprint: SampleDataGroup, fill: Callable[[SampleDataGroup, int], Any], count: int = 4) -> None:
        self.blueprint, self.fill, self.count = blueprint, fill, count

    @property
    def sample_data_structure(self) -> SampleDataGroup:
        return self.blueprint

    def get_number_of_samples(self) -> int:
        return self.count

    def get_data(self, sample_index: int) -> SampleDataGroup:
        sample = self.blueprint.get_empty_like_self()
        given = self.fill(sample, sample_index)
        return sample if given is None else given


class InOrder(SamplerBase):
    """One epoch of two batches, whose indices come from a generator."""

    is_epoch_based, length = True, 2

    def __init__(self) -> None:
        self.at = 0

    def get_next_batch_indices(self) -> Any:
        if self.at == 2:
            raise StopIteration
        self.at += 1
        return (2 * (self.at - 1) + i for i in range(2))

    def reset(self) -> None:
        self.at = 0


def loader(provider: DataProvider, *steps: Any, order: Any = None, **kwargs: Any) -> DALIStructuredOutputIterator:
    order = order or ShuffledShardedInputCallable(provider, 2)
    definition = PipelineDefinition(order, list(steps), use_parallel_external_source=False)
    pipe = definition.get_dali_pipeline(batch_size=2, num_threads=2)
    return DALIStructuredOutputIterator(2, pipe, definition.check_and_get_output_data_structure(), **kwargs)


class Double(PipelineStepBase):
    """Adds the field y = 2 * x next to x."""

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        group = data["objects"]
        group.add_data_field("y", types.FLOAT)
        group["y"] = group["x"] * 2.0
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        data_empty["objects"].add_data_field("y", types.FLOAT)
        return data_empty


@pytest.mark.parametrize("kind", ["shuffled", "callable", "iterable"])
def test_a_provider_may_keep_its_blueprint(kind):
    """Definitions leave the provider's tree as it is: they neither switch its mappings off nor add the fields of steps."""

    def fill(sample, i):
        sample["objects"]["x"] = [i]
        sample["objects"]["label"] = ["bird", "leaf"]

    data = Made(tree(objects=tree(x=types.FLOAT, label=(types.INT32, {"leaf": 0, "bird": 1}))), fill)
    for _ in range(2):
        order = {
            "shuffled": lambda: ShuffledShardedInputCallable(data, 2),
            "callable": lambda: SamplerInputCallable(data, InOrder(), 2, 0),
            "iterable": lambda: SamplerInputIterable(data, InOrder()),
        }[kind]()
        batches = list(loader(data, Double(), UnneededFieldRemover(["x"]), order=order))
        assert [b["objects"]["y"].flatten().tolist() for b in batches] == [[0, 2], [4, 6]]
        assert all(b["objects"]["label"].tolist() == [[1, 0]] * 2 for b in batches)
    assert data.blueprint.field_names_flat == ("objects.x", "objects.label")


def swapped(sample, i):
    other = tree(b=types.FLOAT, a=types.FLOAT)
    other["a"], other["b"] = [1.0], [2.0]
    return other


def half(sample, i):
    sample["a"] = [1.0]


def shorter(sample, i):
    half(sample, i)
    sample.remove_field("b")


def uneven(sample, i):
    sample["a"], sample["b"] = [1.0], [[1, 2, 3, 4]] if i else []


def unlike(value):
    def fill(sample, i):
        sample["a"], sample["b"] = [1.0], value

    return fill


@pytest.mark.parametrize(
    ("fill", "error", "text"),
    [
        (swapped, ValueError, r"get_data\(0\) has b \(DALIDataType.FLOAT\) where sample_data_structure has a \(DALIDataType.FLOAT\)"),
        (shorter, ValueError, r"get_data\(0\) has no further field where sample_data_structure has b"),
        (half, ValueError, r"get_data\(0\) left field 'b' without a value"),
        (lambda sample, i: {"a": [1.0], "b": [2.0]}, TypeError, r"get_data\(0\) returned dict: return a SampleDataGroup"),
        (
            uneven,
            ValueError,
            r"get_data\(1\) gives field 'b' the shape \(1, 4\), and in sample 0 the field has 1 dims: .*np\.zeros\(\(0, 4\)\)",
        ),
        (unlike(range(3)), ValueError, r"gives field 'b' of DALIDataType.FLOAT a range of int64: .* convert the value"),
        (unlike(torch.zeros(2, dtype=torch.float64)), ValueError, r"gives field 'b' of DALIDataType.FLOAT a Tensor of float64"),
        (unlike("text"), ValueError, r"gives field 'b' of DALIDataType.FLOAT a str"),
        (unlike(np.ones(2) * 1j), ValueError, r"field 'b' of DALIDataType.FLOAT: float32 cannot hold complex numbers"),
    ],
)
def test_samples_of_another_format_are_refused(fill, error, text):
    with pytest.raises(error, match=text):
        next(iter(loader(Made(tree(a=types.FLOAT, b=types.FLOAT), fill))))


@pytest.mark.parametrize("kind", ["shuffled", "callable", "iterable"])
def test_a_stop_iteration_of_users_code_does_not_end_the_epoch(kind):
    """next() without a default raises it. The rest of the epoch would silently be left out."""

    def fill(sample, i):
        sample["a"] = [next(x for x in (0, 1) if x == i)]

    data = Made(tree(a=types.FLOAT), fill)
    order = {
        "shuffled": lambda: ShuffledShardedInputCallable(data, 2),
        "callable": lambda: SamplerInputCallable(data, InOrder(), 2, 0),
        "iterable": lambda: SamplerInputIterable(data, InOrder()),
    }[kind]()
    batches = iter(loader(data, order=order))
    assert next(batches)["a"].tolist() == [[0], [1]]
    with pytest.raises(RuntimeError, match=r"Made.get_data\(2\) raised StopIteration, which would end the epoch"):
        next(batches)


def test_a_stop_iteration_of_post_process_func_does_not_end_the_epoch():
    data = Made(tree(a=types.FLOAT), lambda sample, i: sample.set_data([np.float32([i])]))
    batches = loader(data, post_process_func=lambda step: next(iter(())))
    with pytest.raises(RuntimeError, match="post_process_func raised StopIteration, which would end the epoch"):
        list(batches)


def test_values_that_need_no_conversion_are_taken():
    def fill(sample, i):
        sample["a"], sample["b"], sample["c"] = torch.tensor([i, 0.5]), bytes([i, 7]), np.array([i], ">i4")

    batches = list(loader(Made(tree(a=types.FLOAT, b=types.UINT8, c=types.INT32), fill)))
    assert batches[1]["a"].tolist() == [[2, 0.5], [3, 0.5]]
    assert batches[1]["b"].tolist() == [[2, 7], [3, 7]] and batches[1]["c"].tolist() == [[2], [3]]


def test_two_fields_of_one_flat_name():
    def fill(sample, i):
        sample["a.b"] = [i]
        sample["a"]["b"] = [10 + i]

    data = Made(tree(**{"a.b": types.INT32, "a": tree(b=types.INT32)}), fill)
    for as_dict in (True, False):
        batch = next(iter(loader(data, convert_sample_data_group_to_dict=as_dict)))
        assert batch["a.b"].flatten().tolist() == [0, 1] and batch["a"]["b"].flatten().tolist() == [10, 11]
    with pytest.raises(InvalidArgumentError, match=r"two fields have the flat name 'a\.b'"):
        next(loader(data).internal_iterator)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("step", [None, PaddingToUniform(fill_value=65), PaddingToUniform("t", fill_value=65), PaddingToUniform("g", 65)])
def test_texts_stay_texts(ragged, step):
    texts = ["", "äö", "x\0y", "abc"]

    def fill(sample, i):
        sample["t"], sample["g"]["t"] = texts[i], texts[i]

    field = (types.STRING, None, ragged)
    seen = list(loader(Made(tree(t=field, g=tree(t=field)), fill), step))
    assert [t for b in seen for t in b["t"]] == texts and [t for b in seen for t in b["g"]["t"]] == texts


class Stacked(PipelineStepBase):
    """Stacks two texts in the field a."""

    def _process(self, data: SampleDataGroup) -> SampleDataGroup:
        data["a"] = fn.stack(data["a"], data["b"])
        return data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> SampleDataGroup:
        return data_empty


def test_stacked_texts_are_lists():
    def fill(sample, i):
        sample["a"], sample["b"] = "abc", "de\0"

    assert next(iter(loader(Made(tree(a=types.STRING, b=types.STRING), fill), Stacked()))) == {"a": [["abc", "de"]] * 2, "b": ["de"] * 2}


def test_a_text_that_utf8_cannot_encode_is_refused():
    with pytest.raises(ValueError, match=r"field 't' takes a str that can be encoded as UTF-8, not 'x\\udc80'"):
        tree(t=types.STRING)["t"] = "x\udc80"


def test_cropping_keeps_the_number_of_dims():
    def fill(sample, i):
        sample["point"], sample["rows"], sample["values"] = [i, 5], np.full((3, 2), i), [i, 5]

    step = [CoordinateCropper("point", [1, 1], [2, 2]), CoordinateCropper("rows", [1, 2], [2, 2]), CoordinateCropper("values", [1], [2])]
    batch = next(iter(loader(Made(tree(point=types.FLOAT, rows=types.FLOAT, values=types.INT32), fill), *step)))
    assert batch["point"].tolist() == [[1, 2], [1, 2]]
    assert batch["rows"].tolist() == [[[1, 2]] * 3] * 2
    assert batch["values"].tolist() == [[1, 2], [1, 2]]


def test_the_size_of_bytes_that_are_not_decoded_is_refused():
    def fill(sample, i):
        sample["image"] = np.zeros(10, np.uint8)

    with pytest.raises(ShapeError, match=r"index 1 is out of range .*TensorSizeAdder at image"):
        next(iter(loader(Made(tree(image=types.UINT8), fill), TensorSizeAdder("image", "_hw"))))


class Forgetful(PipelineStepBase):
    """Returns nothing from one of its methods."""

    def __init__(self, method: str) -> None:
        self.method = method

    def _process(self, data: SampleDataGroup) -> Any:
        return None if self.method == "_process" else data

    def _check_and_adjust_data_format_input_to_output(self, data_empty: SampleDataGroup) -> Any:
        return None if self.method == "_check_and_adjust_data_format_input_to_output" else data_empty


def test_mistakes_in_steps_are_named():
    data = Made(tree(a=types.FLOAT), half)
    for method in ("_process", "_check_and_adjust_data_format_input_to_output"):
        with pytest.raises(TypeError, match=rf"Forgetful\.{method} returned NoneType: it has to return the tree"):
            loader(data, Forgetful(method))
    for step, given in ((Forgetful, "the class Forgetful"), (lambda data: data, "function")):
        with pytest.raises(TypeError, match=f"preprocess_functors: step 1 is {given}: a step is an object of a class"):
            loader(data, PaddingToUniform(), step)
