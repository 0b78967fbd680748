# SPDX-License-Identifier: Apache-2.0
"""decoders.image at a fraction of the size gives the same pixels as Pillow's draft mode, which uses libjpeg-turbo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import fn
from support import photograph

SAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Returns baseline and progressive JPEGs with random sides from 9 to 149 pixels, most of which are not multiples of 8."""
    root = tmp_path_factory.mktemp("odd")
    rng = np.random.default_rng(5)
    paths = []
    for k in range(12):
        height, width = (int(v) for v in rng.integers(9, 150, 2))
        paths.append(root / f"{k:02d}.jpg")
        Image.fromarray(photograph(rng, height, width)).save(paths[-1], quality=85, subsampling=SAMPLINGS[k % 3], progressive=k >= 9)
    return paths


def run(files: list[Path], steps: Any, **options: Any) -> list[np.ndarray]:
    @stoker.pipeline_def(batch_size=len(files), num_threads=2, device_id=None, **options)
    def program():
        data, _ = fn.readers.file(files=[str(f) for f in files])
        return steps(data)

    pipeline = program()
    pipeline.build()
    (batch,) = pipeline.run()
    return [np.asarray(batch.at(i)) for i in range(len(files))]


def drafted(path: Path, denom: int) -> np.ndarray:
    image = Image.open(path)
    size = -(-image.width // denom), -(-image.height // denom)
    image.draft("RGB", (image.width // denom, image.height // denom))
    assert image.size == size
    return np.asarray(image)


@pytest.mark.parametrize("decoder", ["stoker", "libjpeg-turbo"])
@pytest.mark.parametrize("denom", [1, 2, 4, 8])
def test_pixels_are_libjpegs(odd_files: list[Path], denom: int, decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_JPEG", decoder)
    for path, got in zip(odd_files, run(odd_files, lambda data: fn.decoders.image(data, scale_denom=denom)), strict=True):
        np.testing.assert_array_equal(got, drafted(path, denom), err_msg=path.name)


@pytest.mark.parametrize("fuse", ["1", "0"])
def test_what_follows_sees_the_smaller_image(odd_files: list[Path], fuse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_FUSE", fuse)

    def steps(data: Any) -> Any:
        return fn.flip(fn.slice(fn.decoders.image(data, scale_denom=2), 0.25, 0.5, axes=[1]), horizontal=1)

    for path, got in zip(odd_files, run(odd_files, steps), strict=True):
        whole = drafted(path, 2)
        assert got.shape[0] == whole.shape[0] and abs(got.shape[1] - whole.shape[1] / 2) <= 1
        first = next(x for x in range(whole.shape[1]) if np.array_equal(whole[:, x : x + got.shape[1]][:, ::-1], got))
        assert abs(first - whole.shape[1] / 4) <= 1


def test_other_fractions_and_formats_are_refused(odd_files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scale_denom is 3; images are decoded at 1/1, 1/2, 1/4 or 1/8 of their size"):
        run(odd_files, lambda data: fn.decoders.image(data, scale_denom=3))
    path = tmp_path / "a.png"
    Image.open(odd_files[0]).save(path)
    with pytest.raises(RuntimeError, match="a PNG is not decoded at 1/4 of its size; a JPEG is"):
        run([path], lambda data: fn.decoders.image(data, scale_denom=4))
