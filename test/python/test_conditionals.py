# SPDX-License-Identifier: Apache-2.0
"""Conditionals beyond DALI's examples (test/python/parity/test_conditionals_parity.py): working graphs, messages of errors, and Python code that is not
rewritten."""

from __future__ import annotations

import functools
import json
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from stoker import Pipeline, fn, pipeline_def, types
from stoker.errors import StokerError
from stoker.pipeline import do_not_convert

N = 6
BITS = [True, False, True, True, False, False]
OTHER = [True, True, False, True, False, True]
RAMP = [np.full((2, 3), 10 * i + 1, np.int32) for i in range(N)]


def given(values: Any, **kwargs: Any) -> Any:
    samples = [np.asarray(v) for v in values]
    return fn.external_source(lambda: samples, batch=True, **kwargs)


def flags(bits: Any = BITS) -> Any:
    return given(bits, ndim=0, dtype=types.BOOL)


def opened(define: Callable[..., Any], **kwargs: Any) -> Pipeline:
    settings = {"batch_size": N, "num_threads": 2, "device_id": None, "seed": 5, "enable_conditionals": True}
    return pipeline_def(define)(**{**settings, **kwargs})


def run(define: Callable[..., Any], **kwargs: Any) -> list[list[Any]]:
    return [[np.array(t) for t in output] for output in opened(define, **kwargs).run()]


# ---- what runs ----


def test_a_function_is_called_for_samples_of_its_branch() -> None:
    calls: list[int] = []

    def count(x: Any) -> Any:
        calls.append(int(x.flat[0]))
        return x + 1

    def define() -> Any:
        x = given(RAMP)
        if flags():
            x = fn.python_function(x, function=count)
        return x

    pipe = opened(define, max_batches=1, prefetch_queue_depth=1)
    (out,) = pipe.run()
    assert sorted(calls[: sum(BITS)]) == [10 * i + 1 for i in range(N) if BITS[i]]
    assert pipe.counters()["branch_skips"] >= N - sum(BITS)
    for i in range(N):
        np.testing.assert_array_equal(np.array(out.at(i)), RAMP[i] + BITS[i])


def test_draws_do_not_depend_on_who_takes_a_branch() -> None:
    def define(bits: list[bool]) -> Any:
        x = fn.random.normal(shape=(3,))
        if flags(bits):
            x = fn.random.uniform(range=(0, 1), shape=(3,))
        y = fn.random.uniform(range=(0, 1))
        return x, y

    some, everyone, nobody = (run(lambda bits=b: define(bits)) for b in (BITS, [True] * N, [False] * N))
    for i in range(N):
        assert some[0][i].tobytes() == (everyone if BITS[i] else nobody)[0][i].tobytes()
        assert some[1][i] == everyone[1][i] == nobody[1][i]


def test_without_a_condition_on_data_nothing_changes(tree: Any) -> None:
    def define(flip: bool = True) -> Any:
        data, label = fn.readers.file(file_root=str(tree), random_shuffle=True)
        image = fn.decoders.image(data)
        if flip and not label.name.isupper():
            image = fn.flip(image, horizontal=fn.random.coin_flip())
        return (fn.resize(image, size=(20, 20)) if flip else image), label

    plain, rewritten = opened(define, enable_conditionals=False), opened(define)
    assert plain.explain() == rewritten.explain()
    assert plain.serialize() == rewritten.serialize().replace(b'"enable_conditionals": true', b'"enable_conditionals": false')


def test_serialised_and_explained() -> None:
    def define() -> Any:
        x, a = fn.random.uniform(range=(0, 1), shape=(4,)), fn.random.coin_flip()
        if a:
            x = x + 1
            if fn.random.coin_flip() == 1:
                x = x * 2
        return x, a

    pipe = opened(define)
    again = Pipeline.deserialize(pipe.serialize())
    for a, b in zip(pipe.run(), again.run(), strict=True):
        assert np.array_equal(a.as_array(), b.as_array())
    assert ", when _truth at test_conditionals.py:" in pipe.explain()
    groups = [g for level in pipe.explain(as_json=True)["levels"] for chain in level["chains"] for g in chain["groups"]]
    assert sorted(len(g.get("when", [])) for g in groups)[-2:] == [2, 2] or any(len(g.get("when", [])) == 2 for g in groups)
    graph = json.loads(pipe.serialize())
    assert any(op["op"] == "_merge" for op in graph["operators"]) and any("when" in op for op in graph["operators"])


# ---- what is refused ----


def refused(define: Callable[[], Any], *says: str) -> StokerError:
    with pytest.raises(StokerError) as caught:
        run(define)
    text = str(caught.value)
    assert all(part in text for part in says), text
    return caught.value


def line(define: Callable[[], Any], mark: str) -> str:
    """Returns file name and line number, as in "test_conditionals.py:31", of a function's line that ends in the comment "# line: MARK"."""
    import inspect

    lines, first = inspect.getsourcelines(define)
    return f"test_conditionals.py:{first + next(i for i, text in enumerate(lines) if text.rstrip().endswith('# line: ' + mark))}"


def test_branches_that_differ_name_both_lines() -> None:
    def types_differ() -> Any:
        if flags():
            x = fn.random.uniform(range=(0, 1))  # line: yes
        else:
            x = fn.random.coin_flip()  # line: no
        return x

    def dims_differ() -> Any:
        x = 3
        if flags():  # line: if
            x = types.Constant([1, 2], device="cpu")  # line: yes
        return x

    def found_when_it_runs() -> Any:
        if flags():
            x = given(RAMP)  # line: yes
        else:
            x = given([np.float32(1)] * N)  # line: no
        return x

    def returns_differ() -> Any:
        if flags():  # line: if
            return fn.random.uniform(range=(0, 1))
        return fn.random.coin_flip()

    refused(types_differ, "the branches differ", line(types_differ, "yes"), line(types_differ, "no"), "float32", "int32")
    refused(dims_differ, "the branches differ", line(dims_differ, "yes"), "1 dim,", f"{line(dims_differ, 'if')} (the variable 'x')")
    refused(returns_differ, f"the branches at {line(returns_differ, 'if')} (what the function returns)")
    found = refused(found_when_it_runs, "must agree", "int32 with 2" if BITS[0] else "float32", "(the variable 'x')")
    assert "_merge" not in str(found)


def test_variables_and_returns_that_are_missing_are_named() -> None:
    def one_branch() -> Any:
        if flags():  # line: if
            value = 5  # line: yes
        return value

    def other_branch() -> Any:
        if flags():
            pass
        else:
            value = 5
        return value

    def in_a_loop() -> Any:
        x = given(RAMP)
        for _ in range(2):
            if flags():
                step = 1
            x = x + step
        return x

    def no_return() -> Any:
        if flags():
            return 5

    def forms() -> Any:
        x = [1, 2]
        if flags():
            x = [1, 2, 3]
        return x[0]

    def text() -> Any:
        how = "a"
        if flags():
            how = "b"
        return len(how)

    refused(one_branch, "'value'", "only where the condition is true", line(one_branch, "if"), line(one_branch, "yes"))
    refused(other_branch, "'value'", "only where the condition is false")
    refused(in_a_loop, "'step'")
    refused(no_return, "what the function returns", "none where it is not")
    refused(forms, "'x'", "3 elements and 2")
    refused(text, "'how'", "no value of a sample")


def test_values_that_cannot_leave_a_branch_are_refused() -> None:
    def breaks() -> Any:
        x = given(RAMP)
        for _ in range(2):
            if flags():
                break
            x = x + 1
        return x

    def returns_from_a_loop() -> Any:
        x = given(RAMP)
        for _ in range(2):
            if flags():
                return x
        return x + 1

    def loops() -> Any:
        x = given(RAMP)
        while x[0, 0] < 5:
            x = x + 1
        return x

    def stores() -> Any:
        kept, key = {"a": 1}, "a"
        if flags():
            kept[key] = 2
        return kept["a"]

    def shares() -> Any:
        kept: list[Any] = []
        if flags():
            kept.append(fn.random.coin_flip() + 1)
        else:
            kept.append(fn.random.coin_flip())
        return kept[0]

    def asserts() -> Any:
        assert flags()
        return 1

    refused(breaks, "break in line", "depends on data")
    refused(returns_from_a_loop, "return in line", "depends on data")
    refused(loops, "`while` at test_conditionals.py:")
    refused(stores, "kept[key]")
    refused(shares, "read outside of that branch", "both assign")
    refused(asserts, "has no truth value", "assert")


def test_a_tensor_is_not_a_condition() -> None:
    def define() -> Any:
        if given(RAMP):
            return 1
        return 2

    def numbers() -> Any:
        return flags() and given(range(N), ndim=0, dtype=types.INT32)

    refused(define, '"if" needs one truth value', "2 dims", "reductions")
    refused(numbers, '"and" takes bool, not int32')


def test_a_definition_without_source_text_is_refused() -> None:
    scope = {"fn": fn, "types": types}
    exec("def define():\n    return 1 if fn.random.coin_flip() else 2\n", scope)
    refused(scope["define"], "<string>:2", "source cannot be had")  # type: ignore[arg-type]

    @do_not_convert
    def helper(a: Any) -> Any:
        return 1 if a else 2

    refused(lambda: helper(flags()), "do_not_convert")


def test_errors_point_to_the_users_line() -> None:
    def define() -> Any:
        if flags():
            x = undefined_name  # type: ignore[name-defined] # noqa: F821 # here
        else:
            x = 2
        return x

    with pytest.raises(NameError) as caught:
        run(define)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.name) == (__file__, "define") and frame.line is not None and frame.line.endswith("# here")
    refused(lambda: fn.resize(flags() and flags(), size=3) if flags() else 1, "test_conditionals.py:")


# ---- kinds of functions and statements that are rewritten ----


def test_dalis_older_place_of_the_decorator() -> None:
    import stoker.pipeline
    from stoker.pipeline.experimental import pipeline_def as older

    assert older is pipeline_def is stoker.pipeline.experimental.pipeline_def


class Definition(Pipeline):
    scale = 3

    def __init__(self) -> None:
        super().__init__(N, 1, None, 5, enable_conditionals=True)
        self.__hidden = 2

    def helper(self, x: Any) -> Any:
        if flags():
            return x * self.__hidden
        return x * self.scale

    def define_graph(self) -> Any:
        return self.helper(given(RAMP))


class Derived(Definition):
    def helper(self, x: Any) -> Any:
        x = super().helper(x)
        if flags(OTHER):
            x = x + 1
        return x


def test_methods_are_rewritten_too() -> None:
    for cls, more in ((Definition, [0] * N), (Derived, OTHER)):
        (out,) = cls().run()
        for i in range(N):
            np.testing.assert_array_equal(np.array(out.at(i)), RAMP[i] * (2 if BITS[i] else 3) + more[i])


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Callable_:
    def __call__(self, x: Any, a: Any) -> Any:
        return x + 1 if a else x


@wrapped
def decorated(x: Any, a: Any, *, times: int = 1) -> Any:
    if a:
        for _ in range(times):
            x = x + 1
    return x


def _halved(x: Any, times: int) -> Any:
    if times == 0:
        return x
    if flags():
        x = x / 2.0
    return _halved(x, times - 1)


class _Scaled:
    by = 3.0

    def of(self, x: Any) -> Any:
        if flags():
            x = x * _Scaled.by
        return x


def test_functions_that_name_themselves_or_their_class() -> None:
    def define() -> Any:
        x = fn.cast(given(RAMP), dtype=types.FLOAT)
        return _halved(x, 2), _Scaled().of(x)

    halved, scaled = run(define)
    for i, (bit, ramp) in enumerate(zip(BITS, RAMP, strict=True)):
        np.testing.assert_array_equal(halved[i], ramp / 4 if bit else ramp)
        np.testing.assert_array_equal(scaled[i], ramp * 3.0 if bit else ramp)


def test_functions_of_all_kinds() -> None:
    total = 0

    def counts() -> Any:
        nonlocal total
        total += 1
        x, a = given(RAMP), flags()
        scale = 2

        def inner(y: Any) -> Any:
            nonlocal scale
            if a:
                y = y * scale
            scale = 5
            return y

        def numbers() -> Iterator[int]:
            for i in range(3):
                if i == 1:
                    continue
                yield i

        results = [decorated(x, a, times=2), Callable_()(x, a), functools.partial(decorated, x, times=3)(a), inner(x)]
        results.append(x + sum(numbers()) + scale)
        results.append((lambda z, b=a: z + 1 if b else z)(x))
        try:
            if total < 0 or [i for i in range(3) if i > 5]:
                raise ValueError("never")
        finally:
            total += 10
        with Pipeline.current() and np.errstate():
            if a:
                results.append(x - 1)
                y = results.pop()
            else:
                y = x
        return (*results, y)

    out = run(counts)
    assert total == 22  # the definition is traced twice, and each trace runs its Python code once, which adds 1 + 10
    for i in range(N):
        b, x = int(BITS[i]), RAMP[i]
        for have, want in zip([o[i] for o in out], [x + 2 * b, x + b, x + 3 * b, x * (1 + b), x + 7, x + b, x - b], strict=True):
            np.testing.assert_array_equal(have, want)


def test_the_rest_of_a_pattern_is_a_variable() -> None:
    """`case {**rest}` assigns: a branch that contains it gives `rest` a new value."""

    def define() -> Any:
        x = given(RAMP)
        rest = {"x": x}
        if flags():
            match {"x": x * 2}:
                case {**rest}:
                    pass
        return rest["x"]

    (out,) = run(define)
    for i in range(N):
        np.testing.assert_array_equal(out[i], RAMP[i] * 2 if BITS[i] else RAMP[i])


def test_early_returns_on_some_paths() -> None:
    """If a branch returns on some of its paths, the code after it is traced on each of the other paths."""

    def define() -> Any:
        x = given(RAMP)
        if flags():
            if flags(OTHER):
                return x + 1
            x = x * 2
        if flags(OTHER):
            return x + 2
        return x + 3

    (out,) = run(define)
    for i in range(N):
        a, b, x = BITS[i], OTHER[i], RAMP[i]
        x = x * 2 if a and not b else x
        np.testing.assert_array_equal(out[i], x + 1 if a and b else x + 2 if b else x + 3)


def test_readers_in_a_branch_read_every_sample(tree: Any) -> None:
    """A reader outside of the branches reads every sample, also samples whose branch does not use the reader."""

    def define() -> Any:
        data, label = fn.readers.file(file_root=str(tree))
        if label[0] == 1:
            image = fn.decoders.image(data)
            image = fn.resize(image, size=(8, 8))
        else:
            image = fn.constant(idata=[0] * 192, shape=(8, 8, 3), dtype=types.UINT8, layout="HWC")
        return image, label

    pipe = opened(define, max_batches=1, prefetch_queue_depth=1, batch_size=21)
    images, labels = pipe.run()
    for i in range(21):
        assert (np.array(images.at(i)).max() > 0) == (np.array(labels.at(i))[0] == 1)
    assert pipe.counters()["decodes"] % 7 == 0 and pipe.counters()["decodes"] < 21


def test_a_branch_inside_try() -> None:
    def plain() -> Any:
        try:
            if flags():
                x = given(RAMP) * 2
            else:
                x = given(RAMP)
        except ValueError:
            raise
        return x

    def star() -> Any:
        try:
            if flags():
                x = given(RAMP) * 2
            else:
                x = given(RAMP)
        except* ValueError:
            raise
        return x

    for define in (plain, star):
        (got,) = run(define)
        assert all(np.array_equal(g, v * (2 if b else 1)) for g, v, b in zip(got, RAMP, BITS, strict=True))
