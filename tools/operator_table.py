#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of operators by device, layout and element type, from `stoker ops --json` on stdin to stdout, as Markdown.

The library's tables list the devices and layouts of an operator. No table lists element types: each operator checks its inputs itself. So this program makes a
pipeline of each operator for each element type, with small inputs that suit the operator, and notes which pipelines run. It needs the built package and NumPy.
"""

from __future__ import annotations

import itertools
import json
import struct
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from stoker import Pipeline, fn, types

TYPES = {
    "bool": types.BOOL,
    "uint8": types.UINT8,
    "uint16": types.UINT16,
    "uint32": types.UINT32,
    "uint64": types.UINT64,
    "int8": types.INT8,
    "int16": types.INT16,
    "int32": types.INT32,
    "int64": types.INT64,
    "float16": types.FLOAT16,
    "bfloat16": types.BFLOAT16,
    "float32": types.FLOAT,
    "float64": types.FLOAT64,
}
WHOLE = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
# Sets of types that have names in the table, the largest first.
SETS = {"all": [*TYPES], "whole numbers": WHOLE, "floats": FLOATS}
WIDTH = 110  # width of paragraphs in characters


def wav() -> np.ndarray:
    samples = np.arange(400, dtype="<i2").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", len(samples)
    )
    return np.frombuffer(head + samples, np.uint8)


def npy() -> np.ndarray:
    head = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"
    return np.frombuffer(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(8), np.uint8)


# For each kind of input that operators take: an array of values that every element type can represent, and its layout.
INPUTS: dict[str, tuple[Any, str]] = {
    "image": (np.arange(12 * 16 * 3).reshape(12, 16, 3) % 100, "HWC"),
    "gray image": (np.arange(12 * 16).reshape(12, 16) % 100, "HW"),
    "signal": (np.arange(600) % 100, ""),
    "boxes": (np.array([[0, 0, 1, 1], [0, 0, 1, 1]]), ""),
    "labels": (np.array([1, 0]), ""),
    "points": (np.arange(10).reshape(5, 2) % 2, ""),
    "matrix": (np.eye(3), ""),
    "transform": (np.eye(2, 3), ""),
    "number": (np.array(1), ""),
    "size": (np.array([12, 16]), ""),
    "mask": (np.array([1, 0, 1, 0, 1]), ""),
    "changes": (np.zeros(7), ""),
    "ids": (np.array([1]), ""),
    "polygons": (np.array([[1, 0, 5]]), ""),
    "channel": (np.zeros((4, 4, 1)), "HWC"),
    "frames": (np.arange(3 * 8 * 8 * 3).reshape(3, 8, 8, 3) % 100, "FHWC"),
    "spectrum": (np.arange(1, 201).reshape(20, 10) % 100 + 1, "ft"),
    "map": (np.ones((12, 16)), "HW"),
    "picture": (np.frombuffer(b"P6 2 2 255\n" + bytes(12), np.uint8), ""),
    "sound": (wav(), ""),
    "array": (npy(), ""),
    "block": (np.frombuffer(b"\x40abcd", np.uint8), ""),
}
# Values to try for a required argument, by its type.
GUESSES: dict[str, list[Any]] = {
    "bool": [True],
    "int": [1, 2],
    "float": [0.5],
    "str": ["layout"],
    "DType": [types.FLOAT],
    "ImageType": [types.RGB],
    "Interp": [types.INTERP_LINEAR],
    "list[int]": [[1], [1, 1], [0, 1, 2]],
    "list[float]": [[0.5], [0.5, 0.5], [0.1, 0.2, 0.8, 0.9], [1, 0, 0, 0, 1, 0]],
    "list[str]": [["a"]],
}
# Calls for operators for which guessed values do not work or make little sense: kinds of the inputs, their element types, and arguments.
CALLS: dict[str, tuple[list[str], list[str], dict[str, Any]]] = {
    "affine_augmentation": (["size"], ["int64"], {"output_hw": [4, 4]}),
    "affine_points": (["points", "transform"], ["float32", "float32"], {}),
    "audio_resample": (["signal"], ["float32"], {"scale": 0.5}),
    "bb_flip": (["boxes"], ["float32"], {}),
    "bbox_heatmap": (["boxes", "size"], ["float32", "int64"], {"heatmap_hw": [4, 4]}),
    "bbox_paste": (["boxes"], ["float32"], {"ratio": 2.0}),
    "bbox_visibility": (["boxes", "size", "labels"], ["float32", "int64", "float32"], {}),
    "boolean_mask": (["mask", "points"], ["bool", "float32"], {}),
    "decoders.image_slice": (["picture"], ["uint8"], {"start": [0, 0], "end": [1, 1], "axes": [0, 1]}),
    "decoders.inflate": (["block"], ["uint8"], {"shape": [4]}),
    "element_condition": (["labels"], ["float32"], {"program": [0, 0, 1, 0, 6, 0], "constants": [0.5]}),
    "experimental.warp_perspective": (["image"], ["float32"], {"matrix": [1, 0, 0, 0, 1, 0, 0, 0, 1]}),
    "gaussian_blur": (["image"], ["float32"], {"sigma": 1.0}),
    "mfcc": (["spectrum"], ["float32"], {}),
    "one_hot": (["labels"], ["int32"], {"num_classes": 4}),
    "paste": (["image"], ["uint8"], {"ratio": 2.0, "fill_value": [0]}),
    "permute_batch": (["image"], ["uint8"], {"indices": [0]}),
    "photometric_distortion": (["image", "changes"], ["float32", "float32"], {}),
    "points_in_box": (["points"], ["float32"], {"lo": [0.0], "hi": [1.0]}),
    "power_spectrum": (["signal"], ["float32"], {}),
    "random_bbox_crop": (["boxes"], ["float32"], {}),
    "random_crop_generator": (["size"], ["int64"], {}),
    "reinterpret": (["image"], ["uint8"], {"layout": "HWC"}),
    "reshape": (["image"], ["uint8"], {"shape": [-1]}),
    "resize": (["image"], ["uint8"], {"size": [4, 4]}),
    "resize_crop_mirror": (["image"], ["uint8"], {"size": [8, 8], "crop": [4, 4]}),
    "roi_random_crop": (["image"], ["uint8"], {"crop_shape": [2, 2, 3], "roi_start": [0, 0, 0], "roi_end": [4, 4, 3]}),
    "segmentation.select_masks": (["ids", "polygons", "points"], ["int32", "int32", "float32"], {}),
    "slice": (["image"], ["uint8"], {"start": [0, 0], "end": [4, 4], "axes": [0, 1]}),
    "squeeze": (["channel"], ["uint8"], {"axes": [2]}),
    "tensor_resize": (["image"], ["uint8"], {"sizes": [4, 4, 3]}),
    "to_decibels": (["spectrum"], ["float32"], {}),
    "transform_matrix": (["matrix", "transform"], ["float32", "float32"], {}),
    "transforms.combine": (["transform", "transform"], ["float32", "float32"], {}),
    "transforms.crop": (["transform"], ["float32"], {"from_end": [2.0, 2.0]}),
    "transforms.rotation": (["transform"], ["float32"], {"angle": 0.5}),
    "transforms.scale": (["transform"], ["float32"], {"scale": [0.5, 0.5]}),
    "transforms.shear": (["transform"], ["float32"], {"shear": [0.5, 0.5]}),
    "transforms.translation": (["transform"], ["float32"], {"offset": [0.5, 0.5]}),
    "warp_affine": (["image"], ["float32"], {"matrix": [1, 0, 0, 0, 1, 0]}),
}
# Element types of the inputs of operators that take names of files, whole videos or a user's function: with the inputs above, no pipeline of these would run.
ASIDE = {"io.file.read": "uint8", "io.video.frame": "uint8", "decoders.video": "uint8", "python_function": "all"}


def function_of(name: str) -> Callable[..., Any]:
    at: Any = fn
    for part in name.split("."):
        at = getattr(at, part)
    return at


def source_of(value: np.ndarray) -> Callable[[], Any]:
    batch = [value.astype(np.float32)]
    return lambda: batch


def runs(name: str, kinds: list[str], dtypes: list[str], arguments: dict[str, Any]) -> bool:
    """Returns whether a pipeline with this operator runs on inputs of these kinds and element types."""
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, seed=1, prefetch_queue_depth=1)
    try:
        with pipe:
            inputs = []
            for kind, dtype in zip(kinds, dtypes, strict=True):
                value, layout = INPUTS[kind]
                node = fn.external_source(source_of(value), layout=layout or None, dtype=types.FLOAT, ndim=value.ndim)
                inputs.append(fn.cast(node, dtype=TYPES[dtype]))
            out = function_of(name)(*inputs, **arguments)
            pipe.set_outputs(*(out if isinstance(out, (list, tuple)) else [out]))
        pipe.run()
        return True
    except (ValueError, TypeError, LookupError, RuntimeError, OSError):
        return False


def candidates(op: dict) -> Iterator[tuple[list[str], list[str], dict[str, Any]]]:
    """Yields kinds and element types of inputs, and required arguments, with which the operator may run."""
    if op["name"] in CALLS:
        yield CALLS[op["name"]]
        return
    required = [a for a in op["args"] if a["required"]]
    values = [a["choices"].split("|")[:2] if "choices" in a else GUESSES[a["type"]] for a in required]
    count = max(1, op["min_inputs"])
    for first in itertools.product(INPUTS, repeat=min(count, 2)):
        kinds = [*first, *first[-1:] * (count - len(first))]
        for chosen in itertools.islice(itertools.product(*values), 8):
            for dtypes in (["float32"] * count, ["uint8"] * count, ["float32", *["int32"] * (count - 1)]):
                yield kinds, dtypes, {a["name"]: v for a, v in zip(required, chosen, strict=True)}


def types_of(op: dict) -> str:
    """Returns the element types that the operator's first input may have, as text for the table."""
    name = op["name"]
    if op["max_inputs"] == 0:
        return ""
    if name in ASIDE:
        return ASIDE[name]
    for kinds, dtypes, arguments in candidates(op):
        if runs(name, kinds, dtypes, arguments):
            return named([t for t in TYPES if runs(name, kinds, [t, *dtypes[1:]], arguments)])
    raise SystemExit(f"operator_table.py: {name} does not run with any input that it tries: add a call to CALLS")


def named(found: list[str]) -> str:
    """Describes a set of types by names of SETS and the remaining types."""
    parts, left = [], list(found)
    for name, members in SETS.items():
        if set(members) <= set(left):
            parts.append(name)
            left = [t for t in left if t not in members]
    return ", ".join([*parts, *left])


def gpu_of(op: dict) -> str:
    if op["on_nvdec"]:
        return "NVDEC"
    if op["reader"] or op["on_cores"]:
        return ""
    return "yes, `mixed`" if op["name"].startswith("decoders.") else "yes"


def main() -> None:
    ops = [op for op in json.load(sys.stdin) if not op["hidden"]]
    intro = (
        "After this page you know where each operator runs, and which layouts and types it takes. `make docs` generates the page. Devices and layouts come "
        "from the tables that the library runs on. Element types come from the library too: a program runs each operator with each type, and lists those that"
        " it accepts.\n\n"
        "- CPU: every operator runs there. GPU: `yes` if it has a kernel for GPUs; `mixed`: it reads bytes from host memory and makes its output on the GPU "
        '(`device="mixed"`); NVDEC: on a GPU, NVDEC decodes the videos that it can. Without an entry, the operator runs on the CPU wherever it is placed; '
        "its inputs and outputs are then in host memory.\n"
        "- Layouts: those that the first input may have. F is a frame, so that the operator takes videos. Without an entry, the table sets no limit, and "
        "[operators.md](operators.md) says what the input must be.\n"
        "- Types: those that the first input may have. `whole numbers` are int8 to int64 and uint8 to uint64, `floats` are float16, bfloat16, float32 and "
        "float64. Without an entry, there is no input."
    )
    lines = ["# Operators at a glance", ""]
    for paragraph in intro.split("\n"):
        rest = "  " if paragraph.startswith("- ") else ""
        lines += textwrap.wrap(paragraph, WIDTH, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False) or [""]
    lines += ["", "| operator | CPU | GPU | layouts | types |", "| --- | --- | --- | --- | --- |"]
    for op in ops:
        link = f"[{op['name']}](operators.md#{op['name'].replace('.', '')})"
        lines.append(f"| {link} | yes | {gpu_of(op)} | {op['layouts']} | {types_of(op)} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
