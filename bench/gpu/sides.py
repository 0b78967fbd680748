# SPDX-License-Identifier: Apache-2.0
"""Builds what the rows of figures.py compare: each row has one side with stoker and one with DALI. A side is a function that takes one batch and returns its
number of images.

stoker's batches are converted to tensors of PyTorch. DALI's are only taken with run(), which costs DALI less than its iterators.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MEAN255, STD255 = [255 * m for m in MEAN], [255 * s for s in STD]
MATRIX = [2.27, 0.0, 0.0, 0.0, 2.27, 100.0]
CAMERAS = 6
Take = Callable[[], int]


def listed(folder: Path, name: str) -> list[str]:
    files = sorted(str(p) for p in (folder / name).rglob("*.jpg"))
    if not files:
        raise SystemExit(f"{folder / name}: no JPEG files")
    return files


def package(side: str) -> Any:
    if side == "stoker":
        import stoker

        return stoker
    from nvidia import dali

    return SimpleNamespace(fn=dali.fn, types=dali.types, pipeline_def=dali.pipeline_def)


def decode_arguments(side: str, load: float, device_id: int | None = 0) -> dict[str, Any]:
    if device_id is None:
        return {}
    return {"device": "mixed"} if side == "stoker" else {"device": "mixed", "hw_decoder_load": load}


def crops(side: str, files: list[str], batch: int, threads: int, load: float, form: str = "", device_id: int | None = 0) -> Any:
    """Builds a pipeline: decode, random resized crop of 224, flip, normalise to float CHW; label. By default the crop is a separate operator after the decoder,
    which is the faster way if the GPU's JPEG engines decode for DALI. With form "crop", the decoder crops."""
    library = package(side)
    fn, types = library.fn, library.types

    @library.pipeline_def(batch_size=batch, num_threads=threads, device_id=device_id, prefetch_queue_depth=2, seed=1)
    def program() -> Any:
        data, label = fn.readers.file(files=files, random_shuffle=True, name="Reader", read_ahead=True, prefetch_queue_depth=2)
        hints = {} if side == "stoker" else {"preallocate_width_hint": 2000, "preallocate_height_hint": 2000}
        if form == "crop":
            image = fn.decoders.image_random_crop(data, output_type=types.RGB, **decode_arguments(side, load, device_id))
            image = fn.resize(image, size=[224, 224])
        else:
            image = fn.decoders.image(data, output_type=types.RGB, **decode_arguments(side, load, device_id), **hints)
            image = fn.random_resized_crop(image, size=[224, 224])
        image = fn.crop_mirror_normalize(
            image, mirror=fn.random.coin_flip(), mean=MEAN255, std=STD255, dtype=types.FLOAT, output_layout="CHW"
        )
        return image, label if device_id is None else label.gpu()

    return program()


def cameras(side: str, files: list[str], batch: int, threads: int, load: float, form: str = "", device_id: int | None = 0) -> Any:
    """Builds a pipeline for six cameras per sample: affine to 704 x 256, brightness and contrast, normalise. It has six readers and six outputs. With form
    "one", and always for stoker, one reader has a list of the files of all cameras in turn: a batch has 6 x batch images, which are (batch, 6, 3, 256, 704)."""
    library = package(side)
    fn, types = library.fn, library.types
    one = form == "one" or side == "stoker"

    def camera(own: list[str], name: str) -> Any:
        data, _ = fn.readers.file(files=own, random_shuffle=False, name=name)
        image = fn.decoders.image(data, output_type=types.RGB, **decode_arguments(side, load))
        image = fn.warp_affine(image, matrix=MATRIX, size=[256, 704], fill_value=0, inverse_map=True)
        brightness, contrast = (fn.random.uniform(range=[0.8, 1.2]) for _ in range(2))
        image = fn.brightness_contrast(image, brightness=brightness, contrast=contrast)
        return fn.crop_mirror_normalize(image, mean=MEAN255, std=STD255, dtype=types.FLOAT, output_layout="CHW")

    @library.pipeline_def(
        batch_size=batch * (CAMERAS if one else 1), num_threads=threads, device_id=device_id, prefetch_queue_depth=2, seed=1
    )
    def program() -> Any:
        return camera(files, "Cameras") if one else tuple(camera(files[c::CAMERAS], f"Camera{c}") for c in range(CAMERAS))

    return program()


def running(pipeline: Any) -> Any:
    pipeline.build()
    return pipeline


def take_from(side: str, pipeline: Any, images_a_batch: int) -> Take:
    running(pipeline)
    if side == "dali":

        def take_theirs() -> int:
            pipeline.run()
            return images_a_batch

        return take_theirs
    from torch.utils.dlpack import from_dlpack

    def take() -> int:
        for output in pipeline.run():
            from_dlpack(output.as_tensor())
        return images_a_batch

    return take


SMALL = {"prefetch": 1, "gpu_memory_limit": 256 << 20}


def take_from_loader(files: list[str], batch: int, threads: int, form: str) -> Take:
    """Builds a stoker.Loader on the GPU, as users do. form "small": with output memory for two batches, as in DALI, and less memory for decoding."""
    from stoker import Loader
    from stoker import transforms as T

    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(list(MEAN), list(STD))]
    samples = [(f, i % 1000) for i, f in enumerate(files)]
    memory: dict[str, Any] = SMALL if form == "small" else {}
    loader = Loader(samples, batch, shuffle=True, transforms=steps, num_threads=threads, device="cuda", **memory)
    batches = iter(loader)

    def take() -> int:
        nonlocal batches
        try:
            images, _ = next(batches)
        except StopIteration:
            batches = iter(loader)
            images, _ = next(batches)
        return len(images)

    return take


def make(side: str, row: str, folder: Path, batch: int, threads: int, load: float, form: str) -> Take:
    """Builds one side. row: "cameras", "loader" (Stoker's Loader or DALI's pipeline), "plain" (a pipeline) or "cores" (the same pipeline without a GPU)."""
    if row == "cameras":
        pipeline = cameras(side, listed(folder, "cameras"), batch, threads, load, form)
        return take_from(side, pipeline, CAMERAS * batch)
    files = listed(folder, "imagenet")
    if row == "cores":
        return take_from(side, crops(side, files, batch, threads, load, form, None), batch)
    if side == "stoker" and row != "plain":
        return take_from_loader(files, batch, threads, form)
    return take_from(side, crops(side, files, batch, threads, load, form), batch)
