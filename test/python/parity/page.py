# SPDX-License-Identifier: Apache-2.0
"""Writes the page of results, doc/parity.md, from the tests' records."""

from __future__ import annotations

from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version

from graph_differences import KNOWN
from harness import RECORDS, SEED, Record

HEAD = """# Parity with NVIDIA DALI

Made by `make parity`; not edited by hand. Each case is one call that runs in DALI {dali} on the CPU and in Stoker, over the same inputs of random
shapes (seed {seed}); values, shapes, types and layouts are compared. Unless said otherwise, decoded pixels, windows and moves of data are equal,
integers differ by at most 1 with 99% equal, and floats by 1e-5 of their range. Random operators are compared by distribution (Kolmogorov-Smirnov
or chi-square): streams are Stoker's own. The cases are in `test/python/parity/`.

"""

BATCHWIDE = [
    "`grid_mask` takes images of all layouts for what they are (DALI: for HWC). `water` and `sphere` leave images alone where mask is the constant 0, as "
    "DALI's documentation has it (DALI: where it comes by sample).",
    "`resize`: an extent that is mirrored and shrinks takes min_filter (DALI: mag_filter). `resize_crop_mirror` mirrors width and height in all layouts "
    "(DALI: other dims where frames or channels lead), and refuses windows beyond the resized image (DALI goes on with its border).",
    "`crop_mirror_normalize` refuses windows beyond the depth of a volume, and orders of dims in which W does not follow H.",
    "`reductions.mean_square` and `rms` of uint16 do not overflow (DALI's squares do). `one_hot` rounds and saturates its two values (DALI cuts and wraps). "
    "`cat` counts inputs without elements (DALI leaves them out).",
    "An axis out of range is an IndexError everywhere (DALI: in some operators, a RuntimeError in others; `squeeze` and `erase` take it for nothing). "
    "`None` in a subscript is refused (DALI takes it for `:`, where NumPy adds a dimension): newaxis adds one.",
    "A fraction for an argument of whole numbers is refused (DALI cuts it). `color_twist`, `hsv`, `hue` and `saturation` of images that have not three "
    "channels are refused (DALI reads or writes past the end of a pixel).",
    "An exception in a `python_function` comes as it is (DALI: as a RuntimeError with its text).",
    "An empty batch of a source (`[]`) is refused (DALI makes a batch of no samples): StopIteration ends an epoch. All readers of a pipeline have one "
    "shard_id and num_shards (DALI: each its own).",
    "4 dims without layout are FHWC for all operators (DALI: DHWC for `crop`).",
    "`random.coin_flip` refuses chances that are not from 0 to 1 (DALI takes them for 0 and 1). `sphere` leaves images of one pixel alone (DALI: fill_value).",
    "In a branch of a condition `io.file.read` reads for the samples that take it. Readers read for all samples there too, as DALI's: their files are asked for "
    "by a sample's place alone, before any operator has run, so that they have come when it does; to ask a predicate first would be to wait for each file. What "
    "is left out for the others is all work on them, decoding first.",
    "With prefetch_queue_depth=1 the next batch begins as soon as one has been taken (DALI: when the next one is asked for): a source or a function that is "
    "changed between two runs is read ahead of the change.",
    "`bbox_rotate` and `random_bbox_crop` refuse boxes that end before they begin or are not finite, `crop` windows and `random_crop_generator` images of "
    "negative extents (DALI computes with them); `one_hot` wants num_classes (DALI's default of 0 makes tensors without elements).",
    "Names of DALI's that begin with an underscore are not there, as `fn._conditional.split` and `merge` or `ops._dlpack_to_array`. Errors are of DALI's "
    "classes; their texts are Stoker's own. Arguments that can be checked while the graph is built are refused there (DALI: at the first run).",
    "`math.clamp` is `min(max(value, lo), hi)`, so that it takes bools (DALI refuses them), and only layouts that meet in one of the two have to fit. Tensors have "
    "up to 8 dims (DALI's more).",
    "More is taken than by DALI: crops to any type, warps of uint16, `normalize` to float16, conversions of a colour space to itself, ANY_DATA of CMYK "
    "files, `...` in subscripts, shapes of int64 for `pad`, `crop` of one extent for both axes, keep_size beside size for `bbox_rotate`, "
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
    """Returns the tolerances from the tables of the operators."""
    from stoker._catalog import operators

    return [f"- `{op.name}`: {text}" for op in operators().values() if (text := getattr(op, "tolerance", None))]


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
        "| operator | comparisons | of them errors in both | largest difference of integers | integers equal, % | largest difference of floats, of range |",
        "|---|---|---|---|---|---|",
        *(_row(op, by_op[op]) for op in sorted(by_op)),
    ]
    told = sorted({(r.op, r.differs) for r in RECORDS if r.differs})
    tolerances = _tolerances()
    text = HEAD.format(dali=dali, seed=SEED) + "\n".join(lines) + "\n\n## Where values differ, and why\n\n"
    text += "\n".join([*(f"- `{op}`: {why}" for op, why in told), *tolerances])
    text += "\n\n## Where calls differ\n\n" + "\n".join(f"- {line}" for line in BATCHWIDE) + "\n"
    # Adds the sentences about random graphs that the page does not contain yet.
    return text + "".join(f"- {s}\n" for s in dict.fromkeys(d.sentence for d in KNOWN) if s not in text)
