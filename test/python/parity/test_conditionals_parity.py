# SPDX-License-Identifier: Apache-2.0
"""The same pipeline definitions with enable_conditionals=True give the same values in DALI and in Stoker."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stoker

dali = pytest.importorskip("nvidia.dali")

SAMPLES = 6
RAMP = [np.full((2, 3), 10 * i + 1, np.int32) for i in range(SAMPLES)]
IMAGES = [np.random.default_rng(i).integers(0, 256, (9, 8, 3), np.uint8) for i in range(SAMPLES)]
RAGGED = [np.arange(1 + i % 4, dtype=np.int64) for i in range(SAMPLES)]


class Library:
    """The names of DALI or of Stoker that the definitions use."""

    def __init__(self, module: Any) -> None:
        self.fn = importlib.import_module(f"{module.__name__}.fn")
        self.types = importlib.import_module(f"{module.__name__}.types")
        self.do_not_convert = importlib.import_module(f"{module.__name__}.pipeline").do_not_convert

    def given(self, *values: Any, **kwargs: Any) -> Any:
        samples = [np.asarray(v) for v in (values if len(values) > 1 else values[0])]
        return self.fn.external_source(lambda: samples, batch=True, **kwargs)

    def flags(self, *bits: int) -> Any:
        return self.given(*(bool(b) for b in bits), ndim=0, dtype=self.types.BOOL)

    def first(self) -> Any:
        return self.flags(1, 0, 1, 1, 0, 0)

    def other(self) -> Any:
        return self.flags(1, 1, 0, 1, 0, 1)


def statements(lib: Library) -> list[Callable[[], Any]]:
    """Returns definitions that test branches, variables and returns."""
    fn, types, given, first, other = lib.fn, lib.types, lib.given, lib.first, lib.other

    def one_branch() -> Any:
        x = given(RAMP)
        if first():
            x = x + 1
        return x

    def nested() -> Any:
        x, a, b = given(RAMP), first(), other()
        if a:
            y = x + 1
            if b:
                x = y * 2
            else:
                x = y * 3
        elif b:
            x = x * 4
        else:
            x = x - 5
        return x

    def chain() -> Any:
        k = given(0, 1, 2, 3, 4, 5)
        if k == 0:
            x = fn.random.uniform(range=(2, 2.0001), dtype=types.INT32)
        elif k == 1:
            x = 7
        elif 1 < k < 4:
            x = types.Constant(8, device="cpu", dtype=types.INT32)
        else:
            x = 9
        return x

    def numbers() -> tuple[Any, ...]:
        k, f = given(0, 1, 2, -1, 0, 5), given(0.0, 0.3, np.nan, -0.0, 1.0, -2.0)
        x = y = 0
        if k:
            x = 1
        if f:
            y = 1
        return x, y, not k, not f

    def early() -> Any:
        x = given(RAMP)
        if first():
            return x + 1
        x = x * 2
        if other():
            return x
        return x + 5

    def several() -> Any:
        x = given(RAMP)
        if first():
            return x, 1, {"a": x}["a"]
        return x + 1, 2, x * 2

    def structures() -> Any:
        x = given(RAMP)
        out, kept = {"a": x, "b": [x, (x + 1, 4)]}, [x]
        if first():
            out = {"a": x * 2, "b": [x, (x, 5)]}
            kept[0] = x - 1
        return out["a"], out["b"][0], out["b"][1][0], out["b"][1][1], kept[0]

    def loops() -> Any:
        x, a = given(RAMP), first()
        for i in range(4):
            if i == 3:
                break
            if a:
                x = x + i
            else:
                y = x * 2
                x = y - i
        return x

    def unused() -> Any:
        x = given(RAMP)
        if first():
            temporary = 5
            text = "a"
            x = x + temporary
        else:
            text = "b"
            del text
        return x

    def same() -> Any:
        x = given(RAMP)
        if first():
            y = x
        else:
            y = x
        return y

    return [one_branch, nested, chain, numbers, early, several, structures, loops, unused, same]


def operators(lib: Library) -> list[Callable[[], Any]]:
    """Returns definitions that test logical operators, calls of functions, and pipeline operators in branches."""
    fn, given, first, other, do_not_convert = lib.fn, lib.given, lib.first, lib.other, lib.do_not_convert

    def logic() -> Any:
        a, b = first(), other()
        return a and b, a or b, not a, (a and not b) or (not a and b), True and a, a or True, a and a == b

    def lazy() -> Any:
        a = first()
        x = given(RAMP)
        return a and x[0, 1] > 20

    def helper(x: Any, a: Any, scale: int = 3) -> Any:
        if a:
            return x * scale
        return x

    @do_not_convert
    def plain(x: Any, a: bool) -> Any:
        return x + 1 if a else x

    def functions() -> Any:
        x, a = given(RAMP), first()
        inner = lambda b: b and other()  # noqa: E731
        return helper(x, a), helper(x, inner(a), scale=2), plain(x, True)

    def images() -> Any:
        x = given(IMAGES, layout="HWC")
        if first():
            x = fn.flip(x)
            if other():
                x = fn.crop(x, crop=(4, 5), crop_pos_x=0.25, crop_pos_y=0.5)
        else:
            x = fn.crop(x, crop=(4, 5))
            x = fn.brightness_contrast(x, brightness=1.25)
        return x, fn.crop_mirror_normalize(x, crop=(3, 3), mean=[1.0, 2.0, 3.0], std=[4.0, 5.0, 6.0])

    def gathers() -> Any:
        x = given(RAGGED)
        if first():
            x = fn.pad(x, axes=(0,))
        else:
            x = fn.permute_batch(x, indices=[2, 0, 1])
        return x

    return [logic, lazy, functions, images, gathers]


def definitions(module: Any) -> dict[str, Callable[[], Any]]:
    lib = Library(module)
    return {f.__name__: f for f in (*statements(lib), *operators(lib))}


def run(lib: Any, define: Callable[[], Any], **kwargs: Any) -> Any:
    pipe = lib.pipeline_def(batch_size=SAMPLES, num_threads=2, device_id=None, enable_conditionals=True, seed=3, **kwargs)(define)()
    pipe.build()
    return pipe, pipe.run()


@pytest.mark.parametrize("name", list(definitions(stoker)))
def test_as_in_dali(name: str) -> None:
    _, want = run(dali, definitions(dali)[name])
    _, have = run(stoker, definitions(stoker)[name])
    _, unfused = run(stoker, definitions(stoker)[name], fuse=False)
    assert len(want) == len(have)
    for w, h, u in zip(want, have, unfused, strict=True):
        assert (int(w.dtype), w.layout()) == (int(h.dtype), h.layout())
        for i in range(SAMPLES):
            expected, given = np.array(w.at(i)), np.array(h.at(i))
            assert given.tobytes() == np.array(u.at(i)).tobytes(), (name, i)
            assert expected.shape == given.shape and expected.dtype == given.dtype, (name, i)
            np.testing.assert_allclose(
                given, expected, atol=0 if given.dtype.kind in "iub" and name != "images" else 1, err_msg=f"{name}, sample {i}"
            )
