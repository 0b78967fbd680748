# SPDX-License-Identifier: Apache-2.0
"""Makes random graphs of the operators that both DALI and Stoker have, and runs them in both.

 random_graphs.py [--graphs N] [--seconds T] [--seed S]         T: no graph is begun after T seconds

Graph i depends only on the seed S + i. It grows by one operator at a time. Each operator runs in both libraries on the same values, so that a difference is
due to that operator, and outputs may differ as far as the operator's cases (cases_*.py) allow. Then the whole graph runs in both. A finding of each kind is
printed once, in its smallest form, as the code that a user would write.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

# The tables of cases import files of test/python. pytest adds that folder to the path; this program has to add it itself.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from graph_differences import known
from graph_domains import Domain, domains, expressions, roots
from graph_program import Program, Ref, Refused, Step, run
from graph_reference import Died, Reference
from graph_shrinking import shrunk
from harness import Batch, Case, Output, compare, library

MOST_STEPS = 8
MOST_ELEMENTS = 1 << 18
MOST_SAMPLES = 4
# Minimum share of rounded integers that must be equal. With factors such as 1/2, many values are halfway between two integers.
LEAST_EQUAL = 0.9
DALI = Reference()


def ours_run(program: Program, outputs: Sequence[str] = ()) -> dict[str, Output]:
    return run(library("stoker"), program, outputs)


@dataclass
class Finding:
    """A difference between the libraries. kind: "values", if the outputs differ; "only DALI" or "only Stoker", if the other library refuses; "whole", if the
    whole graph differs from its single steps."""

    kind: str
    op: str
    why: str
    program: Program

    @property
    def key(self) -> str:
        return f"{self.kind}: {self.op}: {re.sub(r'[-+]?[0-9][0-9.e+-]*', 'N', self.why)[:100]}"


@dataclass
class Tally:
    graphs: int = 0
    steps: collections.Counter[str] = field(default_factory=collections.Counter)  # by operator: number of steps whose values agreed
    refused: int = 0  # number of steps that both libraries refused
    died: int = 0  # number of steps that crashed DALI's process
    known: collections.Counter[str] = field(
        default_factory=collections.Counter
    )  # by sentence of the page of known differences: number of steps that the sentence explains
    findings: dict[str, list[Finding]] = field(default_factory=lambda: collections.defaultdict(list))


# ---- drawing ----


def _of_size(samples: Sequence[np.ndarray], size: int) -> list[np.ndarray]:
    return [samples[i % len(samples)] for i in range(size)]


class Maker:
    """Draws one graph."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.size = int(self.rng.integers(1, MOST_SAMPLES + 1))
        self.count = 0
        self.sources: dict[str, Batch] = {}  # inputs of the current step that are new sources
        self.values: dict[str, Batch] = {}  # values that the next step can read: outputs of earlier steps, and some of their sources

    def pick(self, of: Sequence[Any]) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def source(self, batch: Batch) -> Ref:
        name = self.name("a")
        self.sources[name] = Batch(_of_size(batch.samples, self.size), batch.layout)
        return Ref(name)

    def root(self) -> Batch:
        batch = self.pick(roots())
        if self.chance(0.15):
            batch = Batch(batch.samples, None)
        return Batch(_of_size(batch.samples, self.size), batch.layout)

    def operand(self) -> Ref:
        """Returns a reference to an existing value of the graph, often the newest one, or to a new source."""
        if self.values and self.chance(0.85):
            names = list(self.values)
            return Ref(names[-1] if self.chance(0.6) else self.pick(names))
        batch = self.root()
        ref = self.source(batch)
        self.values[ref.name] = self.sources[ref.name]
        return ref

    def further_input(self, wanted: Batch) -> Ref:
        """Returns an input of the step after the first one: `wanted`, which is the case's own input, as a new source, or an existing value of the same type and
        number of dimensions."""
        like = wanted.samples[0]
        fits = [k for k, v in self.values.items() if v.samples[0].dtype == like.dtype and v.samples[0].ndim == like.ndim]
        return Ref(self.pick(fits)) if fits and self.chance(0.5) else self.source(wanted)

    def argument(self, value: Any) -> Any:
        if isinstance(value, Batch):
            return self.further_input(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.argument(v) for v in value)
        return value

    def changed(self, value: Any) -> Any:
        """Returns a number or a list of numbers close to `value`, or such a value for each sample. Returns values that are not numbers unchanged."""
        numbers = value if isinstance(value, list) else [value]
        if not numbers or not all(type(v) in (int, float) for v in numbers):
            return value
        rows = [[self.close_number(v) for v in numbers] for _ in range(self.size)]
        if self.chance(0.5):
            return rows[0] if isinstance(value, list) else rows[0][0]
        kind = np.int32 if all(isinstance(v, int) for v in numbers) else np.float32
        return Batch([np.array(r if isinstance(value, list) else r[0], kind) for r in rows])

    def close_number(self, value: float) -> float:
        if isinstance(value, int):
            return value + int(self.rng.integers(-1, 3))
        return round(value * float(self.rng.uniform(0.5, 1.5)) + float(self.rng.choice([0, 0, 0.1])), 3)

    def arguments(self, domain: Domain, case: Case) -> dict[str, Any]:
        kwargs = dict(case.kwargs)
        for _ in range(int(self.rng.choice([0, 1, 1, 2, 3]))):
            if not domain.arguments:
                break
            key = self.pick(list(domain.arguments))
            what = self.rng.integers(4)
            if what == 0:
                kwargs.pop(key, None)
            elif what == 1:
                kwargs[key] = self.changed(kwargs.get(key, self.pick(domain.arguments[key])))
            else:
                kwargs[key] = self.pick(domain.arguments[key])
        return {k: self.argument(v) for k, v in kwargs.items()}

    def case(self, value: Batch) -> tuple[Domain, Case]:
        """Returns an operator and one of its calls whose first input has the value's layout and number of dimensions; some call of the operator accepts the
        value's type. Sometimes returns a call without inputs, and now and then any call, even one that both libraries refuse."""
        first, table = value.samples[0], domains()
        like = (str(first.dtype), first.ndim, value.layout)
        for _ in range(40):
            domain = table[self.pick(list(table))]
            if not domain.calls[0].inputs:
                return domain, self.pick(domain.calls)
            firsts = [
                (str(c.inputs[0].samples[0].dtype), c.inputs[0].samples[0].ndim, c.inputs[0].layout) for c in domain.calls if c.inputs
            ]
            fits = [c for c, f in zip(domain.calls, firsts, strict=False) if f[1:] == like[1:]]
            if fits and any(f[0] == like[0] for f in firsts):
                return domain, self.pick(fits)
            if self.chance(0.05):
                return domain, self.pick([*domain.calls, *domain.wrong])
        return domain, self.pick(domain.calls)

    def step(self) -> Step:
        self.sources = {}
        first = self.operand()
        output = [self.name("v")]
        if self.chance(0.15):
            expression = self.pick(expressions())
            operands = [first, self.further_input(self.values[first.name])] if "{1}" in expression else [first]
            return Step("arithmetic", operands, expression=expression, outputs=output)
        domain, case = self.case(self.values[first.name])
        operands = [first, *(self.further_input(b) for b in case.inputs[1:])] if case.inputs else []
        return Step(domain.op, operands, self.arguments(domain, case), outputs=output)


# ---- comparing ----


def rules_of(step: Step, program: Program, reference: Sequence[Output]) -> list[list[Case]]:
    """Returns, for each output, the rules of which at least one must hold. If a rule requires a share of equal values, four values may differ in any case: in a
    small tensor, the share that may differ can be less than one value. Tolerances of floats are proportional to the largest magnitude in the output and the
    inputs; those of integers of 32 and more bits to the largest magnitude in the output, rounded as float32."""
    inputs = [program.sources[o.name] for o in step.operands]
    dtype = str(inputs[0].samples[0].dtype) if inputs else "float32"
    rule = Case("arithmetic") if step.expression else domains()[step.op].rule(dtype, step.kwargs)
    return [_rules_for(rule, output, inputs) for output in reference]


def _rules_for(rule: Case, output: Output, inputs: Sequence[Batch]) -> list[Case]:
    if rule.exact:
        return [rule]
    count, kind = sum(s.size for s in output.samples), output.samples[0].dtype
    if kind.kind == "f":
        half = 2.0**-10 if kind.itemsize == 2 else 1e-5
        scale = max(_magnitude(output.samples), *(_magnitude(b.samples) for b in inputs if b.samples[0].dtype.kind == "f"), 0.0)
        if rule.op == "reductions.sum":  # large terms may cancel, so the tolerance grows with the number of terms
            scale *= max(sum(s.size for s in inputs[0].samples) / max(count, 1), 1)
        close = replace(rule, bound=half * scale, share=0.0)
        if rule.bound is None or rule.bound <= 0.1 * scale:
            return [replace(close, bound=max(rule.bound or 0.0, half * scale))]
        return [
            close,
            replace(rule, share=min(rule.share or 0.0, 1 - 4 / max(count, 1))),
        ]  # a warp may read a neighbouring pixel, so only most values must be equal
    bound = max(1.0 if rule.bound is None else rule.bound, 1e-6 * _magnitude(output.samples) if kind.itemsize > 2 else 0.0)
    share = 0.0 if kind.itemsize > 2 else max(0.0, min(rule.needed(floats=False), LEAST_EQUAL, 1 - 4 / max(count, 1)))
    return [replace(rule, bound=bound, share=share)]


def _why_unlike(rules: Sequence[Case], theirs: Output, ours: Output) -> str:
    """Returns "" if one of the rules holds, otherwise the message of the last rule."""
    why = ""
    for rule in rules:
        try:
            compare(rule, [theirs], [ours], [])
            return ""
        except AssertionError as error:
            why = str(error)
    return why


def _magnitude(samples: Sequence[np.ndarray]) -> float:
    return max((float(np.abs(s[np.isfinite(s)].astype(np.float64)).max(initial=0.0)) for s in samples), default=0.0)


@dataclass
class Outcome:
    """The result of one step on given inputs. kind: as in Finding; "" if the values agree by the rules, "refused" if both libraries refuse. made:
    Stoker's values. equal: whether these equal DALI's bit for bit."""

    kind: str = ""
    why: str = ""
    made: dict[str, Output] = field(default_factory=dict)
    equal: bool = False


def outcome(program: Program) -> Outcome:
    step = program.steps[0]
    results: list[dict[str, Output]] = []
    raised: list[str] = []
    for way in (DALI.run, ours_run):
        try:
            results.append(way(program))
            raised.append("")
        except Refused as refused:
            raised.append(str(refused))
    if all(raised):
        return Outcome("refused")
    if any(raised):
        return Outcome("only Stoker" if raised[0] else "only DALI", raised[0] or raised[1])
    reference, ours = (list(r.values()) for r in results)
    if len(ours) != len(reference):
        return Outcome("values", f"{len(ours)} outputs, DALI has {len(reference)}")
    for rules, theirs, made in zip(rules_of(step, program, reference), reference, ours, strict=True):
        if why := _why_unlike(rules, theirs, made):
            return Outcome("values", why)
    return Outcome(made=results[1], equal=not any(_unlike(a, b, exactly=True) for a, b in zip(ours, reference, strict=True)))


def batches(values: dict[str, Output]) -> dict[str, Batch]:
    return {k: Batch(v.samples, v.layout or None) for k, v in values.items()}


def outputs_of_floats(program: Program, values: dict[str, Output]) -> set[str]:
    """Returns the names of outputs that are floats or depend on floats. Their last bits depend on which operators run in one pass."""
    found: set[str] = set()
    for step in program.steps:
        for name in step.outputs:
            if values[name].samples[0].dtype.kind == "f" or found.intersection(step.refs()):
                found.add(name)
    return found


def exact_outputs(program: Program, equal: set[str]) -> set[str]:
    """Returns the names of all sources, and of the outputs that must equal DALI's in the whole graph too: their step, and all steps on which they depend, gave
    equal values. equal: names of the outputs whose step gave equal values."""
    found = set(program.sources)
    for step in program.steps:
        if found.issuperset(step.refs()) and equal.issuperset(step.outputs):
            found.update(step.outputs)
    return found


def whole(program: Program, values: dict[str, Output], equal: set[str]) -> str:
    """Runs the whole graph in both libraries. Describes the first difference from the values that Stoker made step by step, or says which library refuses
    the graph. Returns "" if all values are equal, or if DALI's process died."""
    rounded, exact = outputs_of_floats(program, values), exact_outputs(program, equal)
    try:
        ours = ours_run(program, program.leaves())
    except Refused as refused:
        return f"Stoker refuses the whole: {refused}"
    for name, output in ours.items():
        if _unlike(output, values[name], exactly=name not in rounded):
            return f"Stoker's {name} is another than the steps make: {_unlike(output, values[name], exactly=name not in rounded)}"
    try:
        theirs = DALI.run(program)
    except Died:
        return ""
    except Refused as refused:
        return f"DALI refuses the whole: {refused}"
    for name, output in theirs.items():
        if _unlike(values[name], output, exactly=name in exact):
            return f"{name} of the whole: {_unlike(values[name], output, exactly=name in exact)}"
    return ""


def _unlike(ours: Output, reference: Output, exactly: bool) -> str:
    for what in ("dtype", "layout"):
        if getattr(ours, what) != getattr(reference, what):
            return f"{what} {getattr(ours, what)!r}, not {getattr(reference, what)!r}"
    for a, b in zip(ours.samples, reference.samples, strict=True):
        if a.shape != b.shape:
            return f"shape {a.shape}, not {b.shape}"
        if exactly and not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return "values"
    return ""


# ---- one graph ----


def grown(maker: Maker, tally: Tally) -> tuple[Program, dict[str, Output], set[str]]:
    """Returns a graph, the values of its steps, and the names of the outputs that equal DALI's bit for bit."""
    graph, values, equal = Program(), dict[str, Output](), set[str]()
    wanted = int(maker.rng.integers(1, MOST_STEPS + 1))
    for _ in range(3 * wanted):
        step = maker.step()
        fed = {r: maker.values[r] for r in step.refs() if r in maker.values}
        alone = Program({**fed, **maker.sources} or {"a0": Batch([np.zeros(1)] * maker.size)}, [step])
        try:
            found = outcome(alone)
        except Died:
            tally.died += 1
            continue
        if found.kind == "refused":
            tally.refused += 1
            continue
        if found.kind:
            _note(Finding(found.kind, step.op, found.why, alone), tally)
            continue
        if any(s.size > MOST_ELEMENTS for o in found.made.values() for s in o.samples):
            continue
        tally.steps[step.op] += 1
        graph = Program({**graph.sources, **{k: v for k, v in alone.sources.items() if k not in values}}, [*graph.steps, step])
        values |= found.made
        equal.update(found.made if found.equal else ())
        maker.values |= batches(found.made)
        if len(graph.steps) == wanted:
            break
    return graph, values, equal


def _note(finding: Finding, tally: Tally) -> None:
    sentence = known(finding.kind, finding.program.steps[0], finding.program, finding.why)
    if sentence:
        tally.known[sentence] += 1
        return
    if finding.key not in tally.findings:
        finding.program = shrunk(finding.program, {}, lambda p: _again(p, finding.kind))
    tally.findings[finding.key].append(finding)


def _again(program: Program, kind: str) -> bool:
    try:
        found = outcome(program)
    except Died:
        return False
    return found.kind == kind and not known(kind, program.steps[0], program, found.why)


def one(seed: int, tally: Tally) -> None:
    maker = Maker(seed)
    graph, values, equal = grown(maker, tally)
    tally.graphs += 1
    if not graph.steps:
        return
    why = whole(graph, values, equal)
    if not why:
        return
    if sentence := known("whole", graph.steps[-1], graph, why):
        tally.known[sentence] += 1
        return
    small = shrunk(graph, batches(values), lambda p: bool(whole_again(p)))
    finding = Finding("whole", "/".join(s.op for s in small.steps), whole_again(small) or why, small)
    tally.findings[finding.key].append(finding)


def whole_again(program: Program) -> str:
    """Runs the steps of a program one by one, then the whole program, and returns the result of whole(). Returns "" if a single step differs or ends DALI's
    process."""
    values, equal = dict[str, Output](), set[str]()
    for step in program.steps:
        fed = {r: program.sources[r] if r in program.sources else batches(values)[r] for r in step.refs()}
        try:
            found = outcome(Program(fed or {"a0": Batch([np.zeros(1)] * program.size)}, [step]))
        except Died:
            return ""
        if found.kind:
            return ""
        values |= found.made
        equal.update(found.made if found.equal else ())
    return whole(program, values, equal)


def report(tally: Tally, seed: int) -> None:
    print(
        f"{tally.graphs} graphs from seed {seed}: {sum(tally.steps.values())} steps as in DALI, {tally.refused} refused by both, {tally.died} ended DALI"
    )
    for sentence, count in tally.known.most_common():
        print(f"{count:6} known: {sentence}")
    for key, found in sorted(tally.findings.items(), key=lambda f: -len(f[1])):
        print(f"{len(found):6} {key}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    tally, begun = Tally(), time.monotonic()
    for seed in range(asked.seed, asked.seed + asked.graphs):
        if time.monotonic() - begun > asked.seconds:
            break
        before = set(tally.findings)
        one(seed, tally)
        for key in set(tally.findings) - before:
            found = tally.findings[key][0]
            print(f"---- seed {seed}: {found.kind}: {found.op}: {found.why}\n{found.program.text()}\n", flush=True)
    DALI.close()
    report(tally, asked.seed)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
