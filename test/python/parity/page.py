# SPDX-License-Identifier: Apache-2.0
"""Writes the page of results, doc/parity.md, from the tests' records."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version

from graph_differences import KNOWN
from harness import RECORDS, SEED, Record

HEAD = """# Parity with NVIDIA DALI

After this page you know how close each operator is to DALI's. `make parity` writes the page. Each case is one call that runs in DALI {dali} on the CPU and in
Stoker, over the same inputs of random shapes (seed {seed}); values, shapes, types and layouts are compared. Unless said otherwise, decoded pixels,
windows and moves of data are equal, integers differ by at most 1 with 99% equal, and floats by 1e-5 of their range. Random operators are compared by
distribution (Kolmogorov-Smirnov or chi-square): streams are Stoker's own. The cases are in `test/python/parity/`.

"""

BATCHWIDE = [
    "`grid_mask` reads the layout of its images (DALI treats every layout as HWC). `water` and `sphere` do not change an image whose mask is the constant "
    "0, as DALI's documentation says (DALI does so only if the mask is given by sample).",
    "`resize`: an extent that is mirrored and shrinks is filtered with min_filter (DALI: mag_filter). `resize_crop_mirror` mirrors width and height in all "
    "layouts (DALI mirrors other dims if frames or channels come first), and refuses windows beyond the resized image (DALI continues with the border of "
    "the image).",
    "`crop_mirror_normalize` refuses windows beyond the depth of a volume, and orders of dims in which W does not follow H.",
    "`reductions.mean_square` and `rms` of uint16 do not overflow (DALI's squares do). `one_hot` rounds and saturates its two values (DALI truncates and "
    "wraps). `cat` counts inputs without elements (DALI leaves them out).",
    "An axis out of range is an IndexError everywhere (DALI: a RuntimeError in some operators; `squeeze` and `erase` ignore it). `None` in a subscript is "
    "refused (DALI reads it as `:`, NumPy adds a dimension): newaxis adds one.",
    "A fraction for an argument of whole numbers is refused (DALI truncates it). `color_twist`, `hsv`, `hue` and `saturation` refuse images that do not "
    "have three channels (DALI reads or writes past the end of a pixel).",
    "An exception in a `python_function` is raised unchanged (DALI: as a RuntimeError with its text).",
    "An empty batch of a source (`[]`) is refused (DALI makes a batch of no samples): StopIteration ends an epoch. All readers of a pipeline have one "
    "shard_id and num_shards (DALI: each its own).",
    "4 dims without layout are FHWC for all operators (DALI: DHWC for `crop`).",
    "`random.coin_flip` refuses probabilities outside of 0 to 1 (DALI uses 0 or 1 instead). `sphere` does not change images of one pixel (DALI: fill_value).",
    "In a branch of a condition, `io.file.read` reads only for the samples that run the branch. Readers read for all samples, as DALI's do: they choose "
    "files by the sample's place before any operator has run, so that the bytes are there in time. The samples of the other branch skip all further work, "
    "beginning with the decoder.",
    "If prefetch_queue_depth is 1, the next batch begins as soon as one has been taken (DALI: when the next one is requested). A source or function that the "
    "program changes between two runs has then already been read once more.",
    "`bbox_rotate` and `random_bbox_crop` refuse boxes that end before they begin or are not finite. `crop` and `random_crop_generator` refuse negative "
    "extents (DALI computes with both). `one_hot` wants num_classes (DALI's default of 0 makes tensors without elements).",
    "DALI's names that begin with an underscore are missing, such as `fn._conditional.split` and `merge` or `ops._dlpack_to_array`. Errors have DALI's "
    "classes and Stoker's own texts. Arguments that can be checked while the graph is built are refused then (DALI: at the first run).",
    "`math.clamp` is `min(max(value, lo), hi)`, so it accepts bools (DALI refuses them), and only layouts that are combined in one of the two must agree. "
    "Tensors have up to 8 dims (DALI: more).",
    "Stoker accepts more than DALI: crops to any type, warps of uint16, `normalize` to float16, conversions of a colour space to itself, ANY_DATA of CMYK "
    "files, `...` in subscripts, shapes of int64 for `pad`, `crop` of one extent for both axes, keep_size together with size for `bbox_rotate`, "
    "`checkpoint()` without enable_checkpointing.",
]


def _percent(share: float) -> str:
    return "100" if share == 1 else f"{min(share * 100, 99.99):.2f}"


def _row(op: str, records: list[Record]) -> str:
    integer = [r for r in records if r.scale == 1.0 and not r.rule.startswith(("float", "distribution", "error"))]
    floats = [r for r in records if r.rule == "float" or (r.scale != 1.0 and r not in integer)]
    equal = sum(r.equal for r in integer) / len(integer) if integer else 1
    plain = [r for r in integer if not r.differs]
    largest = f"{max((r.largest for r in plain), default=0):g}" if integer else "-"
    relative = f"{max((r.largest / r.scale for r in floats if r.scale and not r.differs), default=0):.1e}" if floats else "-"
    errors = sum(r.rule == "error" for r in records)
    return f"| `{op}` | {len(records)} | {errors or ''} | {largest} | {_percent(equal)} | {relative} |"


def _tolerances() -> list[str]:
    """Returns a line for each operator whose entry in stoker._catalog states a tolerance."""
    from stoker._catalog import operators

    return [f"`{op.name}`: {text}" for op in operators().values() if (text := getattr(op, "tolerance", None))]


def _list(items: list[str]) -> str:
    return "\n".join(
        textwrap.fill(item, 140, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for item in items
    )


def page() -> str:
    try:
        dali = version("nvidia-dali-cuda120")
    except PackageNotFoundError:
        import nvidia.dali

        dali = nvidia.dali.__version__
    by_op: dict[str, list[Record]] = defaultdict(list)
    for record in RECORDS:
        by_op[record.op].append(record)
    lines = [
        "| operator | comparisons | errors in both | largest difference of integers | integers equal, % | largest difference of floats, of range |",
        "|---|---|---|---|---|---|",
        *(_row(op, by_op[op]) for op in sorted(by_op)),
    ]
    differing = sorted({(r.op, r.differs) for r in RECORDS if r.differs})
    values = [*(f"`{op}`: {why}" for op, why in differing), *_tolerances()]
    calls = list(BATCHWIDE)
    # Adds the sentences about random graphs that the page does not contain yet.
    for sentence in dict.fromkeys(d.sentence for d in KNOWN):
        if not any(sentence in item for item in values + calls):
            calls.append(sentence)
    text = HEAD.format(dali=dali, seed=SEED) + "\n".join(lines)
    return f"{text}\n\n## Differences of values\n\n{_list(values)}\n\n## Differences of calls\n\n{_list(calls)}\n"
