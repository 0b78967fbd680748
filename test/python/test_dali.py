# SPDX-License-Identifier: Apache-2.0
"""Programs written for NVIDIA DALI: run with DALI's imports and with ours, and compared."""

import importlib
import random

import numpy as np
import pytest
from support import SEED

dali = pytest.importorskip("nvidia.dali", reason="NVIDIA DALI is not installed")
pytestmark = pytest.mark.dali

BOTH = ("nvidia.dali", "stoker")


class Library:
    """The modules and classes of DALI or of stoker that a program imports."""

    def __init__(self, name):
        self.name = name
        self.fn, self.types = importlib.import_module(f"{name}.fn"), importlib.import_module(f"{name}.types")
        self.pipeline_def = importlib.import_module(name).pipeline_def
        self.Pipeline = importlib.import_module(name).Pipeline
        self.torch = importlib.import_module(f"{name}.plugin.pytorch")


LIBRARIES = [Library(name) for name in BOTH]


def run_both(program, *args, **kwargs):
    return [program(library, *args, **kwargs) for library in LIBRARIES]


def outputs(library, define, batches=2, batch_size=6, **kwargs):
    pipe = library.pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, seed=7, **kwargs)(define)()
    pipe.build()
    result = []
    for _ in range(batches):
        for out in pipe.run():
            result += [np.array(out.at(i)) for i in range(len(out))]
    return result


def compare(define, tolerance=0.0, share=0.0, **kwargs):
    theirs, ours = (outputs(library, lambda lib=library: define(lib), **kwargs) for library in LIBRARIES)
    assert len(theirs) == len(ours)
    for k, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{k}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
        assert difference.max(initial=0) <= tolerance, f"output {k}: {difference.max()} (seed {SEED})"
        if share:
            assert (difference > 0).mean() <= share


def test_classification_without_random_draws(tree):
    def define(lib):
        data, label = lib.fn.readers.file(file_root=str(tree), name="Reader")
        image = lib.fn.decoders.image(data, device="cpu", output_type=lib.types.RGB)
        image = lib.fn.resize(image, resize_shorter=40, interp_type=lib.types.INTERP_TRIANGULAR)
        image = lib.fn.crop_mirror_normalize(
            image, dtype=lib.types.FLOAT, output_layout="CHW", crop=(32, 32), mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4], mirror=1
        )
        return image, label

    compare(define, tolerance=1.01 / 57)


@pytest.mark.parametrize("output_type", ["RGB", "BGR", "GRAY", "YCbCr"])
def test_decoders_equal_those_of_dali(tree, output_type):
    compare(
        lambda lib: lib.fn.decoders.image(lib.fn.readers.file(file_root=str(tree))[0], output_type=getattr(lib.types, output_type)),
        tolerance=1,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"size": [30, 50]},
        {"resize_x": 40},
        {"resize_shorter": 33},
        {"resize_longer": 64},
        {"size": 48, "mode": "not_larger"},
        {"resize_y": 200},
    ],
)
def test_resize_equals_that_of_dali(tree, arguments):
    compare(lambda lib: lib.fn.resize(lib.fn.decoders.image(lib.fn.readers.file(file_root=str(tree))[0]), **arguments), tolerance=1)


def test_crops_and_flips(tree):
    def define(lib):
        image = lib.fn.decoders.image(lib.fn.readers.file(file_root=str(tree))[0])
        return (
            lib.fn.crop(image, crop=(31, 40), crop_pos_x=0.3, crop_pos_y=0.9),
            lib.fn.flip(image, horizontal=0, vertical=1),
            lib.fn.slice(image, 5, 20, axes=[0]) if False else lib.fn.slice(image, start=[5, 3], end=[25, 40], axes=[1, 0]),
            lib.fn.cast(image, dtype=lib.types.FLOAT) / 2,
            image[3:20, ::-1, 1],
            image.shape(),
        )

    compare(define)


def sequence(library, files, policy, padded, by, shards, shard, stick, batch, epochs):
    """Returns the labels that an iterator gives, epoch by epoch."""

    @library.pipeline_def(batch_size=batch, num_threads=1, device_id=None, seed=1)
    def define():
        _, label = library.fn.readers.file(
            files=files, name="Reader", num_shards=shards, shard_id=shard, stick_to_shard=stick, pad_last_batch=padded
        )
        return label

    end = {"reader_name": "Reader"} if by == "reader" else {"size": len(files), "last_batch_padded": padded}
    iterator = library.torch.DALIGenericIterator(define(), ["label"], last_batch_policy=library.torch.LastBatchPolicy[policy], **end)
    result = []
    for _ in range(epochs):
        result.append([step[0]["label"].flatten().tolist() for step in iterator])
        iterator.reset()
    return result


@pytest.mark.parametrize("policy", ["FILL", "PARTIAL", "DROP"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("by", ["reader", "size"])
def test_policies_of_one_shard(files, policy, padded, by):
    draw = random.Random(SEED)
    for _ in range(4):
        names = [str(f) for f in files[: draw.randint(5, 15)]]  # DALI's policy DROP refuses an epoch without a full batch
        batch = draw.randint(1, 5)
        theirs, ours = run_both(sequence, names, policy, padded, by, 1, 0, False, batch, 4)
        assert theirs == ours, f"{len(names)} files, batch {batch} (seed {SEED})"


@pytest.mark.parametrize("policy", ["FILL", "PARTIAL", "DROP"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("stick", [False, True])
def test_policies_of_shards(files, policy, padded, stick):
    draw = random.Random(SEED + 1)
    for _ in range(4):
        shards = draw.randint(2, 4)
        names = [str(f) for f in files[: shards * draw.randint(1, 5)]]  # shards of equal sizes; for others see doc/from-dali.md
        batch, shard = draw.randint(1, min(4, len(names) // shards)), draw.randrange(shards)
        theirs, ours = run_both(sequence, names, policy, padded, "reader", shards, shard, stick, batch, 4)
        assert theirs == ours, f"{len(names)} files, batch {batch}, shard {shard} of {shards} (seed {SEED})"


@pytest.mark.parametrize("mode", ["sample", "batch", "iterable"])
def test_external_source(mode):
    def program(library):
        log = []

        def per_sample(info):
            log.append((info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx))
            if info.iteration >= 3:
                raise StopIteration
            return np.full((2, 3), info.idx_in_epoch, np.float32)

        def per_batch(iteration):
            if iteration >= 3:
                raise StopIteration
            return [np.full((2,), 10 * iteration + i, np.int32) for i in range(4)]

        source, kwargs = {
            "sample": (per_sample, {"batch": False}),
            "batch": (per_batch, {}),
            "iterable": ([np.full((4, 2), k, np.uint8) for k in range(3)], {"cycle": "raise"}),
        }[mode]

        @library.pipeline_def(batch_size=4, num_threads=1, device_id=None)
        def define():
            return library.fn.external_source(source=source, **kwargs)

        pipe = define()
        pipe.build()
        result = []
        for _ in range(2):
            try:
                while True:
                    result.append(np.array(pipe.run()[0].as_tensor()).tolist())
            except StopIteration:
                pipe.reset()
        return result, log[:12]

    theirs, ours = run_both(program)
    assert theirs == ours


def test_feed_input():
    def program(library):
        pipe = library.Pipeline(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1, exec_pipelined=False, exec_async=False)
        with pipe:
            node = library.fn.external_source(name="in")
            pipe.set_outputs(node * 2)
        pipe.build()
        result = []
        for k in range(3):
            pipe.feed_input("in", np.full((3, 2), k, np.int32))
            (out,) = pipe.run()
            result.append((out.as_array().tolist(), str(out.dtype), out.shape()))
        return result

    theirs, ours = run_both(program)
    assert theirs == ours


PAIRS = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "float32", "float64", "bool"]


@pytest.mark.parametrize("left", PAIRS)
def test_types_are_promoted_as_in_dali(left):
    def program(library):
        result = {}
        for right in [*PAIRS, "int", "float"]:
            for name, apply in (
                ("+", lambda a, b: a + b),
                ("*", lambda a, b: a * b),
                ("/", lambda a, b: a / b),
                ("//", lambda a, b: a // b),
                ("<", lambda a, b: a < b),
            ):

                def define(right=right, apply=apply):
                    a = library.fn.external_source(lambda: [np.ones(2, left)] * 2)
                    b = {"int": 2, "float": 2.0}.get(right)
                    return apply(a, library.fn.external_source(lambda: [np.ones(2, right)] * 2) if b is None else b)

                try:
                    pipe = library.pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()
                    pipe.build()
                    result[right, name] = str(pipe.run()[0].dtype)
                except (RuntimeError, TypeError, ValueError):
                    result[right, name] = "refused"
        return result

    theirs, ours = run_both(program)
    assert theirs == ours


def test_surface_of_pipelines_and_lists(tree):
    def program(library):
        @library.pipeline_def(batch_size=5, num_threads=1, device_id=None, enable_checkpointing=True)
        def define():
            data, label = library.fn.readers.file(file_root=str(tree), name="Reader", shard_id=1, num_shards=2)
            return library.fn.resize(library.fn.decoders.image(data), size=[10, 12]), label

        pipe = define()
        pipe.build()
        image, label = pipe.run()
        meta = pipe.reader_meta("Reader")
        return {
            "shape": image.shape(),
            "layout": image.layout(),
            "dense": image.is_dense_tensor(),
            "len": len(image),
            "tensor": image.as_tensor().shape(),
            "tensor layout": image.as_tensor().layout(),
            "dtype": str(image.dtype),
            "array": image.as_array().shape,
            "numpy": np.array(image).shape,
            "at": image.at(1).shape,
            "item": image[1].shape(),
            "label": label.as_array().tolist(),
            "source": image[0].source_info().split("/")[-2:],
            "epoch size": pipe.epoch_size("Reader"),
            "meta": {
                k: meta[k] for k in ("epoch_size", "epoch_size_padded", "number_of_shards", "shard_id", "pad_last_batch", "stick_to_shard")
            },
            "batch size": (pipe.max_batch_size, pipe.num_threads, pipe.device_id),
        }

    theirs, ours = run_both(program)
    assert theirs == ours


def test_epochs_of_external_sources_in_iterators():
    def program(library):
        class Source:
            def __iter__(self):
                self.i = 0
                return self

            def __next__(self):
                if self.i == 3:
                    raise StopIteration
                self.i += 1
                return [np.int32([self.i])] * 2

        @library.pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def define():
            return library.fn.external_source(source=Source(), cycle="raise")

        iterator = library.torch.DALIGenericIterator(define(), ["x"], auto_reset=True)
        return [[s[0]["x"].flatten().tolist() for s in iterator] for _ in range(3)]

    theirs, ours = run_both(program)
    assert theirs == ours
