# SPDX-License-Identifier: Apache-2.0
"""Cases of operators on sequences whose arguments have one value per frame: by per_frame, or by a layout that begins with F."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from harness import Batch, Case, Library, T, rng_of
from samples import smooth

FRAMES = (2, 3, 1)  # number of frames in each sample
EXTENT = {"D": 4, "H": 9, "W": 7, "C": 3}


def sequences(rng: np.random.Generator, layout: str, dtype: str = "uint8") -> Batch:
    def frame() -> np.ndarray:
        image = smooth(rng, (EXTENT["H"], EXTENT["W"], EXTENT["C"]), dtype)
        image = image[..., 0] if "C" not in layout else image.transpose(2, 0, 1) if layout[1] == "C" else image
        return np.ascontiguousarray(np.stack([image] * EXTENT["D"]) if "D" in layout else image)

    return Batch([np.ascontiguousarray([frame() for _ in range(n)]) for n in FRAMES], layout)


def each(one: Callable[[], Any], dtype: str = "float32") -> Batch:
    return Batch([np.array([one() for _ in range(n)], dtype) for n in FRAMES])


def case(
    op: str, inputs: Sequence[Batch] = (), frames: tuple[int, ...] = (), error: bool = False, bound: float | None = None, **kw: Any
) -> Case:
    """Returns a case of a call. frames: indices of the inputs that hold one value per frame. Arguments that are Batches hold one value per frame too."""

    def build(lib: Library, *nodes: Any) -> Any:
        marked = [lib.fn.per_frame(n) if k in frames else n for k, n in enumerate(nodes)]
        given = {k: lib.fn.per_frame(lib.resolve(v)) if isinstance(v, Batch) else lib.resolve(v) for k, v in kw.items()}
        return lib.operator(op)(*marked, **given)

    head = f"{inputs[0].samples[0].dtype} {inputs[0].layout}" if inputs else ""
    return Case(op, list(inputs), build=build, title=f"{head} by frame: {', '.join(kw)} {frames or ''}", error=error, bound=bound)


def pixels() -> Iterator[Case]:
    rng = rng_of("frames")
    u = rng.uniform
    for layout in ("FHWC", "FCHW", "FDHWC", "FHW"):
        x = sequences(rng, layout)
        yield case("gaussian_blur", [x], sigma=each(lambda: [u(0.5, 2)]))
        yield case("laplacian", [x], window_size=each(lambda: rng.choice([3, 5]), "int32"))
    for dtype in ("uint8", "float32"):
        x = sequences(rng, "FHWC", dtype)
        yield case("brightness", [x], brightness=each(lambda: u(0, 2)), brightness_shift=0.1)
        yield case("brightness_contrast", [x], brightness=each(lambda: u(0, 2)), contrast=1.5)
        yield case("hsv", [x], hue=each(lambda: u(0, 180)), saturation=each(lambda: u(0, 2)), dtype=T.FLOAT)
        yield case("rotate", [x], angle=each(lambda: u(-180, 180)), keep_size=True, bound=3)
        yield case("rotate", [x], angle=each(lambda: u(-180, 180)), bound=3)
    x = sequences(rng, "FDHWC")
    yield case("rotate", [x], angle=each(lambda: u(-90, 90)), axis=[0.0, 0, 1], bound=3)
    matrices = each(lambda: [[u(0.5, 1.5), u(-0.5, 0.5), u(-2, 2)], [u(-0.5, 0.5), u(0.5, 1.5), 0]])
    x = sequences(rng, "FHWC")
    yield case("warp_affine", [x], matrix=matrices, bound=3)
    yield case("warp_affine", [x, matrices], (1,), bound=3)
    yield case("filter", [x, each(lambda: u(0, 0.2, (3, 3)))], (1,), anchor=each(lambda: [1, 0], "int32"), dtype=T.FLOAT)
    # each sample has one frame, but some have several angles
    yield case("rotate", [Batch([s[:1] for s in x.samples], "FHWC")], angle=each(lambda: u(-180, 180)), error=True)
    # the samples are images, not sequences
    yield case("brightness", [Batch([s[0] for s in x.samples], "HWC")], brightness=each(lambda: 1.5), error=True)
    # the samples have no layout, so they are not sequences
    yield case("rotate", [Batch([s[0] for s in x.samples])], angle=each(lambda: 15.0), error=True)


def points() -> Iterator[Case]:
    rng = rng_of("frames of points")
    u = rng.uniform
    x = Batch([u(0, 1, (n, 5, 2)).astype("float32") for n in FRAMES], "FNC")
    yield case("coord_transform", [x], M=each(lambda: u(0, 1, (2, 2))), T=each(lambda: u(0, 1, 2)))
    yield case("coord_transform", [x], MT=each(lambda: u(0, 1, (2, 3))))
    yield case("transforms.rotation", angle=each(lambda: u(0, 180)), center=[1.0, 2.0])
    yield case("transforms.scale", scale=each(lambda: u(0, 2, 2)), center=each(lambda: u(0, 2, 2)))
    yield case("transforms.shear", angles=each(lambda: u(0, 60, 2)))
    yield case("transforms.crop", from_start=each(lambda: u(-9, -1, 2)))
    several, one = each(lambda: u(0, 1, (2, 3))), Batch([u(0, 1, (2, 3)).astype("float32") for _ in FRAMES])
    yield case("transforms.translation", [several], (0,), offset=[1.0, 2.0])
    yield case("transforms.translation", [one], offset=each(lambda: u(0, 60, 2)))
    yield case("transforms.combine", [several, one], (0,))


def all_cases() -> Iterator[Case]:
    yield from pixels()
    yield from points()
