# SPDX-License-Identifier: Apache-2.0
"""Runs one call in NVIDIA DALI and in Stoker and compares values, shapes, types and layouts.

A Case describes the call once. Names of `types` are written T.UINT8 and looked up in each library, since their numbers are not part of the
interface. `RECORDS` keeps the comparisons, from which doc/parity.md is made.
"""

from __future__ import annotations

import contextlib
import importlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SEED = 20240917


@dataclass(frozen=True)
class Name:
    """The name of a constant of the module `types`, which is looked up in the library that runs the case."""

    name: str

    def __repr__(self) -> str:
        return self.name.removeprefix("INTERP_")


class _Names:
    def __getattr__(self, name: str) -> Name:
        return Name(name)


T: Any = _Names()


@dataclass
class Batch:
    """The samples of an input, or of an argument that has a value for each sample."""

    samples: list[np.ndarray]
    layout: str | None = None

    def __repr__(self) -> str:
        return "<per sample>"

    def __len__(self) -> int:
        return len(self.samples)


@dataclass
class Case:
    """One call. differs: a sentence for doc/parity.md about an intended difference, which `bound` and `share` must allow; "": no difference is intended."""

    op: str
    inputs: Sequence[Batch] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    build: Callable[..., Any] | None = None  # for calls that kwargs cannot express: a function from (library, *nodes) to nodes
    title: str = ""
    exact: bool = False
    bound: float | None = None  # largest allowed difference; None: 1 for integers, a small fraction of the largest value for floats
    share: float | None = None  # share of values that must be equal; None: 99% of integers, and no share of floats or if `bound` is given
    differs: str = ""
    error: bool = False  # DALI raises an error, and Stoker must too

    def needed(self, floats: bool) -> float:
        """Returns the share of values that must be equal. floats: the output has floats, for which a share counts only if `bound` is given too."""
        if self.share is not None:
            return self.share if not floats or self.bound is not None else 0
        return 0.0 if floats or self.bound is not None else 0.99

    @property
    def name(self) -> str:
        text = self.title or ", ".join(f"{k}={v!r}" for k, v in self.kwargs.items())
        kind = f"{self.inputs[0].samples[0].dtype} {self.inputs[0].layout or ''}".strip() if self.inputs and not self.title else ""
        return f"{self.op}({', '.join(t for t in (kind, text) if t)})"


@dataclass
class Output:
    samples: list[np.ndarray]
    dtype: str
    layout: str


@dataclass
class Record:
    op: str
    case: str
    largest: float
    equal: float
    scale: float  # 1 for integers, DALI's largest finite magnitude for floats
    exact: bool
    rule: str
    differs: str


RECORDS: list[Record] = []


def rng_of(*names: str) -> np.random.Generator:
    """Returns a random stream that depends only on these names, so that new cases do not change the values of others."""
    return np.random.default_rng([SEED, zlib.crc32("/".join(names).encode())])


class Library:
    """The parts of nvidia.dali or stoker that cases use, and a function that runs a case with them."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.fn = importlib.import_module(f"{package}.fn")
        self.types = importlib.import_module(f"{package}.types")
        self.math = importlib.import_module(f"{package}.math")
        self.Pipeline = importlib.import_module(package).Pipeline
        self.newaxis = importlib.import_module(package).newaxis

    def resolve(self, value: Any) -> Any:
        if isinstance(value, Name):
            return getattr(self.types, value.name)
        if isinstance(value, Batch):
            return self.fn.external_source(source=[value.samples], cycle=True, layout=value.layout)
        if isinstance(value, (list, tuple)):
            return type(value)(self.resolve(v) for v in value)
        return value

    def resolve_all(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {k: self.resolve(v) for k, v in kwargs.items()}

    def operator(self, path: str) -> Any:
        found: Any = self.fn
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def run(self, case: Case, batch_size: int) -> list[Output]:
        pipe = self.Pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=SEED, prefetch_queue_depth=1)
        with pipe:
            nodes = [self.resolve(i) for i in case.inputs]
            if case.build:
                outputs = case.build(self, *nodes)
            else:
                outputs = self.operator(case.op)(*nodes, **self.resolve_all(case.kwargs))
            outputs = tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)
            pipe.set_outputs(*outputs)
        return [Output([np.array(o.at(i)) for i in range(len(o))], o.dtype.name, o.layout()) for o in pipe.run()]


_LIBRARIES: dict[str, Library] = {}


def library(package: str) -> Library:
    if package not in _LIBRARIES:
        _LIBRARIES[package] = Library(package)
    return _LIBRARIES[package]


def libraries() -> Iterator[Library]:
    return (library(p) for p in ("nvidia.dali", "stoker"))


def _differences(reference: Output, ours: Output) -> tuple[float, float, float]:
    """Returns the largest absolute difference, the share of equal values, and DALI's largest finite magnitude. Two NaNs are equal."""
    largest, equal, count, scale = 0.0, 0, 0, 0.0
    for a, b in zip(reference.samples, ours.samples, strict=True):
        assert a.shape == b.shape, f"shape {b.shape}, DALI's is {a.shape}"
        same = (a == b) | ((a != a) & (b != b))
        equal += int(same.sum())
        count += a.size
        if a.size:
            wide = np.float64 if a.dtype.kind == "f" else object if a.dtype.itemsize == 8 else np.int64
            gaps = np.where(same, 0, np.abs(a.astype(wide) - b.astype(wide)))
            largest = max(largest, float(np.max(gaps)))
            finite = np.abs(a.astype(np.float64))
            scale = max(scale, float(np.max(finite[np.isfinite(finite)], initial=0)))
    return largest, equal / count if count else 1.0, scale


def compare(case: Case, reference: Sequence[Output], ours: Sequence[Output], records: list[Record] = RECORDS) -> None:
    """Asserts that types, shapes and layouts are equal, and that values are within the case's bounds. Adds a record for each output of the right type,
    shapes and layout to `records`, even if its values differ too much."""
    assert len(reference) == len(ours), f"{len(ours)} outputs, DALI has {len(reference)}"
    for a, b in zip(reference, ours, strict=True):
        assert b.dtype == a.dtype, f"type {b.dtype}, DALI's is {a.dtype}"
        assert len(b.samples) == len(a.samples)
        largest, equal, scale = _differences(a, b)
        assert b.layout == a.layout, f"layout {b.layout!r}, DALI's is {a.layout!r}"
        floats = a.samples[0].dtype.kind == "f"
        half = 2.0**-11 if a.dtype == "FLOAT16" else 0.0
        bound = 0.0 if case.exact else case.bound if case.bound is not None else max(1e-5, half) * scale if floats else 1.0
        rule = "equal" if case.exact else f"at most {case.bound:g}" if case.bound is not None else "float" if floats else "integer"
        records.append(Record(case.op, case.name, largest, equal, scale if floats else 1.0, case.exact, rule, case.differs))
        shown = f"largest difference {largest:g} of {scale:g}, {equal:.2%} equal"
        assert largest <= bound, shown
        assert equal >= case.needed(floats), shown


def check(case: Case) -> None:
    """Runs the case in both libraries, and asserts that the outputs agree or, for a case of an error, that both raise one. If it fails, the output shows the
    call and the shapes of its inputs."""
    print(f"{case.name}; seed {SEED}; shapes {[[s.shape for s in b.samples] for b in case.inputs]}")
    for key, value in case.kwargs.items():
        if isinstance(value, Batch):
            print(f"  {key} = {[s.tolist() for s in value.samples]}")
    size = next((len(b) for b in [*case.inputs, *case.kwargs.values()] if isinstance(b, Batch)), 3)
    dali, stoker = libraries()
    if case.error:
        for lib in (dali, stoker):
            raised = False
            with contextlib.suppress(Exception):
                lib.run(case, size)
                raised = True
            assert not raised, f"{lib.package} takes it"
        RECORDS.append(Record(case.op, case.name, 0, 1, 1, True, "error", case.differs))
        return
    ours = stoker.run(case, size)
    compare(case, dali.run(case, size), ours)
