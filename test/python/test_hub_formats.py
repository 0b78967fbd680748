# SPDX-License-Identifier: Apache-2.0
"""Datasets of the package `datasets`: with_format, and types of columns."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader
from stoker.errors import InvalidArgumentError

datasets = pytest.importorskip("datasets")


def table(**columns):
    out = io.BytesIO()
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(out, "PNG")
    made = datasets.Dataset.from_dict({"image": [{"bytes": out.getvalue(), "path": None}] * 2, **columns})
    return made.cast_column("image", datasets.Image())


def test_the_columns_of_with_format():
    made = table(label=[1, 2], x=[[1.5], [2.5]])
    for more in ({}, {"output_all_columns": True}):
        source = made.with_format("torch", columns=["image", "label"], **more)
        assert next(iter(Loader(source, 2)))._fields == tuple(source[0])


@pytest.mark.parametrize("more", [{"dtype": torch.float64}, {"device": "cpu"}])
def test_formats_that_convert_are_refused(more):
    with pytest.raises(InvalidArgumentError, match=rf"with_format\('torch', {next(iter(more))}=.*ToDtype"):
        Loader(table(label=[1, 2]).with_format("torch", **more), 2)


@pytest.mark.parametrize("stream", [False, True])
def test_lists_of_floats_that_float32_cannot_hold_are_refused(stream):
    """A single number of this size is refused as well. Infinity itself is accepted."""
    large = [[0.1, float("inf")], [1e300, 2.0]]
    matrix = [[[0.1, -float("inf")]], [[2.0, -1e39]]]
    features = datasets.Features({"x": datasets.List(datasets.Value("float64")), "m": datasets.Array2D((1, 2), "float64")})
    for name, values in (("x", large), ("m", matrix)):
        source = table(**{name: values}).cast_column(name, features[name])
        source = source.to_iterable_dataset() if stream else source
        loader = Loader(source, 2, on_error="skip", max_errors=1)
        (batch,) = loader
        assert torch.equal(getattr(batch, name), torch.tensor([values[0]], dtype=torch.float32))
        assert "does not fit" in str(loader.pipeline.bad_samples()[0])
        with pytest.raises(OverflowError, match=r"floats are float32, and .* does not fit"):
            next(iter(Loader(source, 2)))
