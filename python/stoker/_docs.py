# SPDX-License-Identifier: Apache-2.0
"""Makes signatures and docstrings of operators from their tables."""

from __future__ import annotations

import inspect
from typing import Any

from stoker._catalog import Arg, ArgKind, Op
from stoker._signatures import Quiet, Shown, filled

_WIDTH = 76  # help() may indent the text by four columns

# Arguments of every operator, with their documentation.
COMMON = {
    "device": "str or None; 'cpu', 'gpu' or 'mixed': where it runs. In a pipeline without a GPU all run on the CPU.",
    "name": "str or None; name in the graph: for reader_meta, and for random operators the key of their stream.",
    "preserve": "accepted; without effect.",
    "bytes_per_sample_hint": "accepted; without effect.",
    "minibatch_size": "accepted; without effect.",
    "seed": "int or None; seed of this operator in place of the pipeline's.",
    "temp_buffer_hint": "accepted; without effect.",
}


class _Default:
    """A default that a signature shows as `text`. It is never passed to a function."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def input_names(op: Op) -> list[str]:
    """Returns the names of the inputs in the signature; [] if the operator takes any number of inputs, or more than four: the signature then shows *inputs."""
    if op.max_inputs > 4 or op.max_inputs < 0:
        return []
    return ["data"] if op.max_inputs == 1 else [f"input{i}" for i in range(op.max_inputs)]


def signature(op: Op) -> inspect.Signature:
    """Returns the signature of an operator: inputs by position, arguments by name."""
    p = inspect.Parameter
    parameters: list[inspect.Parameter] = []
    names = input_names(op)
    for i, name in enumerate(names):
        default = p.empty if i < op.min_inputs else None
        parameters.append(p(name, p.POSITIONAL_ONLY, default=default))
    if not names and op.max_inputs:
        parameters.append(p("inputs", p.VAR_POSITIONAL))
    taken = {a.name for a in op.args}
    # Required arguments come first, so that help() shows them before the many optional ones.
    for a in sorted(op.args, key=lambda a: not a.required):
        made = Quiet if a.accepted_only else p
        parameters.append(made(a.name, p.KEYWORD_ONLY, default=p.empty if a.required else a.default))
    # Arguments of every operator: help() shows only the device, the name and, for random operators, the seed.
    parameters += [
        (p if name in ("device", "name") or (name == "seed" and op.random) else Quiet)(name, p.KEYWORD_ONLY, default=None)
        for name in COMMON
        if name not in taken
    ]
    return Shown(parameters)


def _range(arg: Arg) -> str:
    if arg.kind in (ArgKind.BOOL, ArgKind.STRING, ArgKind.STRINGS, ArgKind.DTYPE, ArgKind.IMAGE_TYPE, ArgKind.INTERP):
        return ""
    # Bounds from 2^24 on, and from -2^24 down, are not shown: they only catch mistakes.
    low, high = arg.min > -(2**24), arg.max < 2**24
    if not low and not high:
        return ""
    if low and high:
        return f", from {arg.min:g} to {arg.max:g}"
    return f", at least {arg.min:g}" if low else f", at most {arg.max:g}"


def _arg_text(arg: Arg) -> str:
    kind = arg.type
    if arg.scalar_ok and kind.startswith("list["):
        kind += " or " + kind[5:-1]
    if arg.per_sample:
        kind += " or a node, also with a value for each frame" if arg.per_frame else " or a node"
    facts = kind + _range(arg)
    if arg.infinite or arg.nan:
        facts += ", may be " + " or ".join(["infinite"] * arg.infinite + ["NaN"] * arg.nan)
    if arg.choices:
        facts += ", one of " + ", ".join(f"'{c}'" for c in arg.choices.split("|"))
    facts += "; required" if arg.required else f"; default {arg.default!r}" if arg.default_text is not None else ""
    head = f"{arg.name}: {facts}"
    head = filled(head, _WIDTH - 2, "    ")
    return head + "\n" + filled("    " + arg.doc, _WIDTH - 2, "    ") if arg.doc else head


def _inputs_text(op: Op) -> str:
    if op.max_inputs == 0:
        return ""
    count = f"{op.min_inputs}" if op.min_inputs == op.max_inputs else f"{op.min_inputs} to {op.max_inputs}"
    text = f"Inputs: {count}"
    if op.layouts:
        text += f"; layouts {', '.join(op.layouts.split())}"
    return text + "."


def _flags_text(op: Op) -> str:
    facts = []
    if op.random:
        facts.append("Draws random numbers: a stream of its own, by the pipeline's seed, its name and the sample's place in the epoch.")
    if op.batch:
        facts.append("Needs the whole batch: the samples of a batch wait for each other here.")
    if op.alias:
        facts.append(f"Also known as fn.{op.alias}, DALI's older name.")
    if op.tolerance:
        facts.append(f"Accuracy: {op.tolerance}")
    return "\n".join(_filled(fact) for fact in facts)


def _filled(text: str) -> str:
    return "\n".join(filled(line, _WIDTH) for line in text.splitlines())


def docstring(op: Op) -> str:
    """Returns the docstring of an operator."""
    meant = [a for a in sorted(op.args, key=lambda a: not a.required) if not a.accepted_only]
    ignored = [a.name for a in op.args if a.accepted_only]
    taken = {a.name for a in op.args}
    parts = [_filled(op.doc.strip()), _filled(_inputs_text(op))]
    lines = [_arg_text(a) for a in meant]
    lines += [
        filled(f"{n}: {t}", _WIDTH - 2, "    ")
        for n, t in COMMON.items()
        if n not in taken and (n in ("device", "name") or (n == "seed" and op.random))
    ]
    parts.append("Arguments, by name:\n\n" + "  " + "\n".join(lines).replace("\n", "\n  "))
    if ignored:
        parts.append(filled("Accepted for compatibility with DALI, without effect: " + ", ".join(sorted(ignored)) + ".", _WIDTH))
    parts.append(_flags_text(op))
    return "\n\n".join(p for p in parts if p)


def annotate(arg: Arg) -> Any:
    """Returns the type of an argument in a stub, as text."""
    scalar = {
        "BOOL": "bool",
        "INT": "int",
        "FLOAT": "float",
        "STRING": "str | PathLike[str]",
        "DTYPE": "DTypeLike",
        "IMAGE_TYPE": "DALIImageType | str",
    }
    scalar["INTERP"] = "DALIInterpType | str"
    lists = {"INTS": "int", "FLOATS": "float", "STRINGS": "str | PathLike[str]"}
    name = arg.kind.name
    if arg.choices and name == "STRING":  # editors propose the choices; the operator itself checks other strings
        scalar["STRING"] = f"Literal[{', '.join(repr(c) for c in arg.choices.split('|'))}] | str"
    text = (
        f"Sequence[{lists[name]}]" + (f" | {lists[name]}" if arg.scalar_ok or name == "STRINGS" else "") if name in lists else scalar[name]
    )
    if arg.name == "features":
        text = f"Mapping[str, Any] | {text}"  # a mapping of features, as of stoker.tfrecord
    if arg.per_sample:
        text += " | DataNode"
    return text if arg.required else text + " | None"
