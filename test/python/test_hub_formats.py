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
