# SPDX-License-Identifier: Apache-2.0
"""Geometry: what the comparison with DALI cannot ask, or has no room for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn
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
    """Where a graph learns only from its samples that passes do not take their type, a group of operators gives what it gives with float32."""
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


def test_a_point_without_direction_is_refused() -> None:
    with pytest.raises(StokerError, match="axis is 0"):
        run(lambda: fn.transforms.rotation(angle=10.0, axis=[0.0, 0, 0]))
    with pytest.raises(StokerError, match="component 1 of from_start"):
        run(lambda: fn.transforms.crop(from_start=[0.0, 1], from_end=[1.0, 1]))
