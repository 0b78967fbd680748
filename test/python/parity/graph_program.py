# SPDX-License-Identifier: Apache-2.0
"""A graph as the Python code of a user: sources of arrays, and calls on them, which both libraries can run.

`Program.text` returns the code that `run` executes, with its arrays as literals, so a printed graph is the graph that ran.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from harness import SEED, Batch, Library, Name, Output

PRINTED = 120  # maximum number of elements of an array that is printed as numbers


@dataclass(frozen=True)
class Ref:
    """A reference to a source or to an output of a step."""

    name: str


@dataclass
class Step:
    """One operator, or a Python expression in which {0}, {1} are replaced by the operands."""

    op: str
    operands: list[Ref]
    kwargs: dict[str, Any] = field(default_factory=dict)
    expression: str = ""
    outputs: list[str] = field(default_factory=list)

    def call(self) -> str:
        if self.expression:
            return self.expression.format(*(o.name for o in self.operands))
        given = [o.name for o in self.operands] + [f"{k}={code(v)}" for k, v in self.kwargs.items()]
        return f"fn.{self.op}({', '.join(given)})"

    def refs(self) -> Iterator[str]:
        yield from (o.name for o in self.operands)
        yield from (r for v in self.kwargs.values() for r in _refs(v))

    def line(self) -> str:
        return f"{', '.join(self.outputs)} = {self.call()}"


@dataclass
class Program:
    sources: dict[str, Batch] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def size(self) -> int:
        return next((len(b) for b in self.sources.values()), 1)

    def leaves(self) -> list[str]:
        """Returns the names of the outputs that no step reads."""
        read = {r for s in self.steps for r in s.refs()}
        return [o for s in self.steps for o in s.outputs if o not in read]

    def used(self) -> Program:
        """Returns the program without the sources that no step reads."""
        read = {r for s in self.steps for r in s.refs()}
        return replace(self, sources={k: v for k, v in self.sources.items() if k in read})

    def text(self, outputs: Sequence[str] = ()) -> str:
        """Returns the code of a whole program for Stoker. To run it with DALI, replace its first import."""
        shown = self.used()
        lines = ["from stoker import Pipeline, fn, math, newaxis, types  # nvidia.dali", "import numpy as np"]
        if any(s.size > PRINTED for b in shown.sources.values() for s in b.samples):
            lines += ["import base64, zlib", "def unpacked(text, shape, dtype):"]
            lines += ["    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)"]
        lines += ["", f"pipe = Pipeline(batch_size={self.size}, num_threads=1, device_id=None, prefetch_queue_depth=1)", "with pipe:"]
        for name, batch in shown.sources.items():
            arrays = ", ".join(_array(s) for s in batch.samples)
            lines.append(f"    {name} = {_source(f'[[{arrays}]]', batch.layout)}")
        lines += [f"    {s.line()}" for s in self.steps]
        lines += [f"    pipe.set_outputs({', '.join(outputs or self.leaves())})", "outputs = pipe.run()"]
        return "\n".join(lines)


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _refs(v)


def code(value: Any) -> str:
    """Returns the value as Python source."""
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, Name):
        return f"types.{value.name}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(code(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    if isinstance(value, np.ndarray):
        return _array(value)
    return repr(value)


def _array(array: np.ndarray) -> str:
    if array.size > PRINTED:
        packed = base64.b85encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
        return f'unpacked("{packed}", {array.shape}, "{array.dtype}")'
    if not array.size:
        return f"np.zeros({array.shape}, np.{array.dtype})"
    numbers = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({numbers}, np.{'bool_' if array.dtype == bool else array.dtype})"


def _source(arrays: str, layout: str | None) -> str:
    return f"fn.external_source(source={arrays}, cycle=True{f', layout={layout!r}' if layout else ''})"


class Refused(Exception):
    """The library raised an error while the graph was built or run."""


def run(lib: Library, program: Program, outputs: Sequence[str] = ()) -> dict[str, Output]:
    """Returns the values of the named outputs, or of all outputs if `outputs` is empty. Renames the outputs of steps that have more outputs than names."""
    found: dict[str, Any] = {}
    names = {"fn": lib.fn, "math": lib.math, "newaxis": lib.newaxis, "types": lib.types, "np": np}
    try:
        pipe = lib.Pipeline(batch_size=program.size, num_threads=1, device_id=None, seed=SEED, prefetch_queue_depth=1)
        with pipe:
            for name, batch in program.used().sources.items():
                names["arrays"] = [batch.samples]
                found[name] = eval(_source("arrays", batch.layout), {**names, **found})  # runs the code that `text` prints
            for step in program.steps:
                values = eval(step.call(), {**names, **found})
                values = list(values) if isinstance(values, (list, tuple)) else [values]
                if len(step.outputs) != len(values):
                    step.outputs = _named(step.outputs[0], len(values))
                found.update(zip(step.outputs, values, strict=True))
            wanted = list(outputs) or [o for s in program.steps for o in s.outputs]
            pipe.set_outputs(*(found[o] for o in wanted))
        made = pipe.run()
        return {
            name: Output([np.array(o.at(i)) for i in range(len(o))], o.dtype.name, o.layout()) for name, o in zip(wanted, made, strict=True)
        }
    except Exception as error:  # each library may choose its exceptions; only the fact that it raised one is compared
        raise Refused(f"{type(error).__name__}: {_own_words(str(error))}") from error


def _own_words(text: str) -> str:
    """Returns DALI's message without its traceback and without positions in DALI's sources."""
    text = text.rpartition("\nencountered:")[2]
    return " ".join(re.split(r"\nC\+\+ context|\nCurrent pipeline object", text)[0].split())


def _named(first: str, count: int) -> list[str]:
    return [first] if count == 1 else [f"{first}_{k}" for k in range(count)]
