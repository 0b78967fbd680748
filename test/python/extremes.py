# SPDX-License-Identifier: Apache-2.0
"""Passes numbers at which conversions tend to fail to settings, arguments and functions: extremes.py GROUP [PART PARTS].

Runs one group of cases, or a part of it, since a case may crash the process. Writes the name of each case to the file EXTREMES_AT before it runs the case,
and prints the faults that raised no exception."""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import io
import itertools
import json
import math
import os
import sys
import tempfile
import warnings
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from stoker import Loader, Pipeline, Storage, fn, types
from stoker._catalog import Arg, ArgKind, Op, operators
from stoker._settings import SETTINGS

WHOLE = [0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63), 2**64]
VALUES = [*WHOLE, 1e300, math.inf, -math.inf, math.nan, -0.0, True, "1", None]
LIMIT_S = 20  # seconds for one case; if it takes longer, the process prints its threads' stacks and ends
MEMORY = 64 << 20

# The exceptions by which a case may refuse its input, besides a MemoryError with a text, which is NumPy's. All others are faults, such as an
# AssertionError from NumPy, a SystemError, or Python's own MemoryError.
REFUSALS = (ValueError, TypeError, OverflowError, RuntimeError, LookupError, OSError, AttributeError)


class Cases:
    """Runs cases, and counts the cases and the refusals. Writes the name of each case to the file EXTREMES_AT before it runs the case."""

    def __init__(self) -> None:
        self.file = open(os.environ.get("EXTREMES_AT", os.devnull), "w")  # noqa: SIM115 it lives as long as the process
        self.ran = self.refused = 0

    def run(self, name: str, case: Callable[[], Any]) -> Any:
        self.file.seek(0)
        self.file.truncate()
        self.file.write(name)
        self.file.flush()
        self.ran += 1
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        try:
            return case()
        except REFUSALS as e:
            self.refused += 1
            if not str(e).strip():
                print(f"{name}: {type(e).__name__} without a message")
        except MemoryError as e:  # NumPy's has a text with the size; Python's own has no text and is a fault
            if not str(e):
                print(f"{name}: a MemoryError without a message")
        finally:
            faulthandler.cancel_dump_traceback_later()
        return None


def picture(height: int = 12, width: int = 16) -> np.ndarray:
    return (np.arange(height * width * 3) % 251).astype(np.uint8).reshape(height, width, 3)


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.fromarray(picture(24, 32)).save(out, "jpeg")
    return out.getvalue()


def tree() -> str:
    root = tempfile.mkdtemp()
    for c in range(2):
        os.mkdir(f"{root}/{c}")
        for i in range(4):
            with open(f"{root}/{c}/{i}.jpg", "wb") as f:
                f.write(jpeg())
    return root


def same(given: Any, kept: Any) -> bool:
    """Returns whether `kept` is a correct stored form of `given`, a number or its text; always True if `given` is a boolean or None."""
    if isinstance(given, (bool, np.bool_)) or given is None:
        return True
    if isinstance(given, str):
        return str(kept) == given or kept == float(given)
    if kept is None:  # None stands for "no limit"
        return bool(math.isinf(given)) or given == -1
    # a number that is too large for float32 may become infinite
    if abs(given) > 3.5e38 and isinstance(kept, float) and math.isinf(kept):
        return (kept > 0) == (given > 0)
    return bool(kept == given or (isinstance(kept, float) and (math.isclose(kept, given, rel_tol=1e-6) or math.isnan(given))))


# ---- settings of a Pipeline ----


def setting_kept(name: str) -> bool:
    return SETTINGS[name].kept


def settings(cases: Cases) -> None:
    root = tree()

    def run(name: str, value: Any) -> None:
        given = {"batch_size": 2, "num_threads": 1, "device_id": None, "seed": 5, "memory_limit": MEMORY, name: value}
        pipe = Pipeline(**given)
        kept = getattr(pipe._settings, name, None)
        if name not in ("seed", "checkpoint") and isinstance(kept, (int, float)) and not isinstance(value, dict) and not same(value, kept):
            print(f"Pipeline({name}={value!r}) keeps {kept!r}")
        with pipe:
            files, labels = fn.readers.file(file_root=root, random_shuffle=True)
            pipe.set_outputs(fn.decoders.image(files), labels)
        again = Pipeline.deserialize(pipe.serialize())
        if setting_kept(name) and getattr(again._settings, name, None) != kept and not (isinstance(kept, float) and math.isnan(kept)):
            print(f"Pipeline({name}={value!r}) comes back from JSON as {getattr(again._settings, name, None)!r}")
        for p in (pipe, again):
            p.build()
            for _ in range(3):
                p.run()

    for name, setting in SETTINGS.items():
        if setting.meant and name not in ("py_callback_pickler", "storage"):
            for value in VALUES:
                cases.run(f"Pipeline({name}={value!r})", lambda n=name, v=value: run(n, v))
    for key in ("cpu_size", "gpu_size"):
        for value in VALUES:
            cases.run(f"prefetch_queue_depth[{key}] {value!r}", lambda k=key, v=value: run("prefetch_queue_depth", {k: v}))
    # Replaces each number in a pipeline's JSON, and then in its checkpoint, as in a damaged file.
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, seed=5)
    with pipe:
        pipe.set_outputs(fn.decoders.image(fn.readers.file(file_root=root)[0]))
    data = json.loads(pipe.serialize())

    def change(path: tuple[Any, ...], value: Any) -> None:
        copy = json.loads(json.dumps(data))
        at = copy
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        p = Pipeline.deserialize(json.dumps(copy))
        p.build()
        p.run()

    for path in numbers_of(data):
        for value in VALUES:
            cases.run(f"JSON {path} = {value!r}", lambda p=path, v=value: change(p, v))
    p = Pipeline.deserialize(json.dumps(data))
    p.build()
    p.run()
    state = json.loads(p.checkpoint())

    def restore(path: tuple[Any, ...], value: Any) -> None:
        copy = json.loads(json.dumps(state))
        at = copy
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        q = Pipeline.deserialize(json.dumps(data), checkpoint=json.dumps(copy))
        q.build()
        q.run()

    for path in numbers_of(state):
        for value in VALUES:
            cases.run(f"state {path} = {value!r}", lambda p=path, v=value: restore(p, v))


def numbers_of(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of the numbers, booleans and nulls in JSON data. Visits only the first three elements of a list, so that tests are short."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from numbers_of(value, (*path, key))
    elif isinstance(data, list):
        for i, value in enumerate(data[:3]):
            yield from numbers_of(value, (*path, i))
    elif not isinstance(data, str):
        yield path


# ---- Storage and Loader ----

_STORAGE = "requests threads retries hedging connect_timeout answer_timeout stall_timeout cache_limit fetch_threads path_style anonymous"
_LOADER = (
    "batch_size global_batch_size shuffle seed shard drop_last num_threads prefetch pin_memory python_workers exif_orientation dtype last_batch device "
    "decode memory_format views sampler split layout ragged fields num_workers prefetch_factor timeout max_errors memory_limit gpu_memory_limit "
    "held_limit strict "
    "read_requests read_bytes on_error"
)


def storage(cases: Cases) -> None:
    for name in _STORAGE.split():
        for value in VALUES:
            more: dict[str, Any] = {"cache": tempfile.mkdtemp()} if name == "cache_limit" else {}
            if name == "fetch_threads":
                more = {"fetch": lambda uri, offset, length: jpeg()}

            def case(name: str = name, value: Any = value, more: dict[str, Any] = more) -> None:
                store = Storage(**{name: value}, **more)
                if "fetch" in more:
                    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, storage=store)
                    with pipe:
                        pipe.set_outputs(fn.readers.file(files=["x://a", "x://b"])[0])
                    pipe.run()

            cases.run(f"Storage({name}={value!r})", case)


def loader(cases: Cases) -> None:
    root = tree()

    def run(name: str, value: Any) -> None:
        given = {"batch_size": 2, "num_threads": 1, "shard": None, "memory_limit": MEMORY, name: value}
        if name == "global_batch_size":
            del given["batch_size"]
        with contextlib.closing(Loader(root, **given)) as batches:
            for i, _ in enumerate(batches):
                if i == 2:
                    break
            len(batches)

    for name in _LOADER.split():
        for value in VALUES:
            cases.run(f"Loader({name}={value!r})", lambda n=name, v=value: run(n, v))
    for value in VALUES:
        for shard in ((value, 2), (0, value)):
            cases.run(f"Loader(shard={shard!r})", lambda s=shard: run("shard", s))
        cases.run(f"Loader(views=[({value!r}, [])])", lambda v=value: run("views", [(v, [])]))
        cases.run(f"set_epoch({value!r})", lambda v=value: Loader(root, 2, num_threads=1, shard=None).set_epoch(v))
    with contextlib.closing(Loader(root, 2, num_threads=1, shard=None)) as batches:
        state = batches.state_dict()

    def restore(path: tuple[Any, ...], value: Any) -> None:
        import copy

        changed = copy.deepcopy(state)
        at = changed
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        with contextlib.closing(Loader(root, 2, num_threads=1, shard=None)) as fresh:
            fresh.load_state_dict(changed)
            next(iter(fresh))

    for path in numbers_of(state):
        for value in VALUES:
            cases.run(f"Loader state {path} = {value!r}", lambda p=path, v=value: restore(p, v))


# ---- operators ----

NUMBERS = (ArgKind.BOOL, ArgKind.INT, ArgKind.FLOAT, ArgKind.INTS, ArgKind.FLOATS, ArgKind.DTYPE, ArgKind.IMAGE_TYPE, ArgKind.INTERP)
INPUTS: dict[str, tuple[Any, str]] = {
    "image": (picture(), "HWC"),
    "file": (np.frombuffer(jpeg(), np.uint8), ""),
    "boxes": (np.array([[0.1, 0.1, 0.6, 0.7], [0.2, 0.3, 0.9, 0.8]], np.float32), ""),
    "labels": (np.array([1, 0], np.int32), ""),
    "points": (np.arange(10, dtype=np.float32).reshape(5, 2), ""),
    "frames": (np.stack([picture()] * 3), "FHWC"),
    "number": (np.array(1, np.int32), ""),
}
LISTS = {ArgKind.INTS: ([1], [1, 1], [1, 1, 1]), ArgKind.FLOATS: ([0.5], [0.5, 0.5], [0.1, 0.2, 0.8, 0.9], [1, 0, 0, 0, 1, 0])}


def guesses(arg: Arg) -> list[Any]:
    """Returns values to try for a required argument: its first two choices, or one or more values of its kind."""
    if arg.choices:
        return arg.choices.split("|")[:2]
    if arg.kind in LISTS:
        return list(LISTS[arg.kind])
    return {
        ArgKind.BOOL: [True],
        ArgKind.INT: [1, 2],
        ArgKind.FLOAT: [0.5],
        ArgKind.STRING: ["a", "layout"],
        ArgKind.DTYPE: [types.FLOAT],
        ArgKind.IMAGE_TYPE: [types.RGB],
        ArgKind.INTERP: [types.INTERP_LINEAR],
        ArgKind.STRINGS: [["a"]],
    }[arg.kind]


def operator_of(op: Op) -> Callable[..., Any]:
    at: Any = fn
    for part in op.name.split("."):
        at = getattr(at, part)
    return at


def source(value: np.ndarray, layout: str = "") -> Any:
    return fn.external_source(lambda: [value, value], layout=layout or None)


class Runner:
    """Runs one operator on inputs of the kinds that it accepts."""

    def __init__(self, op: Op, root: str) -> None:
        self.op, self.function = op, operator_of(op)
        self.root = root
        self.kinds: tuple[str, ...] = ("image",) * op.min_inputs
        self.base: dict[str, Any] = {"file_root": root} if op.reader else {}
        self.works = self.find()

    def find(self) -> bool:
        """Tries a few kinds of inputs and values of required arguments. Returns whether the operator runs with any of them."""
        required = [a for a in self.op.args if a.required]
        for kinds in itertools.product(INPUTS, repeat=min(self.op.min_inputs, 2)):
            whole = (*kinds, *kinds[-1:] * (self.op.min_inputs - len(kinds)))
            for chosen in itertools.islice(itertools.product(*(guesses(a) for a in required)), 8):
                self.kinds, base = whole, {**self.base, **{a.name: v for a, v in zip(required, chosen, strict=True)}}
                with contextlib.suppress(*REFUSALS):
                    self.run(base)
                    self.base = base
                    return True
        self.kinds = ("image",) * self.op.min_inputs
        self.base = {**self.base, **{a.name: guesses(a)[0] for a in required}}
        return False

    def run(self, arguments: dict[str, Any], kept: tuple[Arg, Any] | None = None) -> None:
        pipe = Pipeline(
            batch_size=2, num_threads=1, device_id=None, seed=1, memory_limit=MEMORY, prefetch_queue_depth=1, timeout=LIMIT_S - 5
        )
        with pipe:
            inputs = [source(*INPUTS[kind]) for kind in self.kinds]
            nodes = {name: source(v.value) if isinstance(v, Sampled) else v for name, v in arguments.items()}
            out = self.function(*inputs, **nodes)
            pipe.set_outputs(*(out if isinstance(out, (list, tuple)) else [out]))
        if kept:
            self.compare(pipe, *kept)
        pipe.run()

    def compare(self, pipe: Pipeline, arg: Arg, given: Any) -> None:
        """If the operator has accepted a value for the argument, compares it with the value in the serialised graph."""
        graph = json.loads(pipe.serialize())
        found = [o["args"][arg.name] for o in graph["operators"] if o["op"] == self.op.name and arg.name in o.get("args", {})]
        for kept in found:
            for a, b in zip(given if isinstance(given, list) else [given], kept if isinstance(kept, list) else [kept], strict=False):
                number = float(b["float"]) if isinstance(b, dict) and "float" in b else b
                if isinstance(number, (int, float)) and not isinstance(a, str) and not same(a, number):
                    print(f"{self.op.name}({arg.name}={given!r}) keeps {kept!r}")


class Sampled:
    """A value that is passed to an argument for each sample, and not once for the graph."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"each {self.value.dtype} {self.value.tolist()!r}"


SAMPLED = [
    Sampled(np.array(v, t))
    for t, values in {
        "int32": [-(2**31), 2**31 - 1, 0],
        "int64": [-(2**63), -(2**63) + 1, 2**63 - 1, -1],
        "uint64": [2**64 - 1],
        "float32": [math.inf, math.nan, 3e38, -3e38, -0.0],
        "float64": [1e300, -1e300, 2.0**63, -(2.0**63)],
    }.items()
    for v in values
]


def each_operator(cases: Cases, part: int, parts: int) -> None:
    root = tree()
    names = [
        op
        for op in operators().values()
        if not op.hidden and op.name not in ("external_source", "python_function", "io.file.read", "io.video.frame")
    ]
    works = 0
    for op in names[part::parts]:
        runner = cases.run(f"{op.name}: finding arguments", lambda op=op: Runner(op, root))
        if runner is None:
            print(f"{op.name}: no way to call it")
            continue
        works += runner.works
        for arg in op.args:
            if arg.kind not in NUMBERS or arg.accepted_only:
                continue
            given: list[Any] = list(VALUES)
            if arg.kind in LISTS:
                length = len(runner.base.get(arg.name, arg.default or [0, 0]))
                given += [[v] * max(1, length) for v in VALUES]
            for value in given:
                cases.run(
                    f"{op.name}({arg.name}={value!r})",
                    lambda r=runner, a=arg, v=value: r.run({**r.base, a.name: v}, (a, v) if v is not None else None),
                )
            if arg.per_sample and runner.works:
                for value in SAMPLED:
                    cases.run(f"{op.name}({arg.name}={value!r})", lambda r=runner, a=arg, v=value: r.run({**r.base, a.name: v}))
                    if arg.kind in LISTS:
                        two = Sampled(np.repeat(value.value, 2))
                        cases.run(f"{op.name}({arg.name}={two!r})", lambda r=runner, a=arg, v=two: r.run({**r.base, a.name: v}))
    print(f"# {works} of {len(names[part::parts])} operators ran with arguments that were found for them", file=sys.stderr)


# ---- batched losses ----


def batching(cases: Cases) -> None:
    import torch
    from stoker import batching as B

    ends = [-(2**63), -(2**63) + 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**62, 2**63 - 2, 2**63 - 1]
    for x in ends:
        for radius in ends:
            for at in ([x, 3], [3, x]):

                def draw(at: list[int] = at, radius: int = radius) -> None:
                    h = torch.zeros(1, 6, 8)
                    B.draw_heatmap(h, torch.tensor([at]), torch.tensor([radius]), torch.tensor([0]))
                    want = np.zeros((6, 8))
                    for v, u in np.ndindex(6, 8):
                        dx, dy = u - at[0], v - at[1]
                        if radius >= 0 and abs(dx) <= radius and abs(dy) <= radius:
                            want[v, u] = math.exp(-(dx * dx + dy * dy) / (2 * ((2 * radius + 1) / 6) ** 2))
                    if not np.allclose(h[0].numpy(), want, atol=1e-5):
                        print(f"draw_heatmap: centre {at}, radius {radius}: {h.max().item()}, not {want.max()}")

                cases.run(f"draw_heatmap {at} {radius}", draw)
    # Calls every function with 1 to 5 arguments, of which each in turn is an extreme number or tensor.
    for name in sorted(n for n in B.__all__ if not n.startswith("_")):
        function = getattr(B, name)
        if not callable(function) or isinstance(function, type):
            continue
        for value in [
            *VALUES,
            torch.tensor(2**63 - 1),
            torch.tensor([-(2**63), 2**63 - 1]),
            torch.tensor([math.nan, math.inf]),
            torch.zeros(0),
        ]:
            for count in range(1, 6):
                for place in range(count):
                    rest: list[Any] = [torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, dtype=torch.int64), 1, 1]
                    given = [value if k == place else rest[k] for k in range(count)]
                    cases.run(f"{name}({place} of {count}: {value!r})", lambda f=function, g=given: f(*g))


# ---- sounds, videos, tables, robots, mixtures, metrics ----


def sound() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(8000)
        f.writeframes(np.arange(4000, dtype="<i2").tobytes())
    return out.getvalue()


def first_batch(make: Callable[[], Any]) -> None:
    loader = make()
    try:
        next(iter(loader), None)
        if hasattr(loader, "__len__"):
            with contextlib.suppress(TypeError):  # the length of a stream is not known, and len() raises a TypeError
                len(loader)
    finally:
        getattr(loader, "close", lambda: None)()


def mutated(cases: Cases, name: str, make: Callable[[], Any]) -> None:
    """Restores states of a loader in which one number, boolean or null was replaced by each of VALUES."""
    import copy

    with contextlib.closing(make()) as loader:
        next(iter(loader))
        state = loader.state_dict()

    def restore(path: tuple[Any, ...], value: Any) -> None:
        changed = copy.deepcopy(state)
        at = changed
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

        def fresh() -> Any:
            made = make()
            made.load_state_dict(changed)
            return made

        first_batch(fresh)

    for path in numbers_of(state):
        for value in VALUES:
            cases.run(f"{name}, state {path} = {value!r}", lambda p=path, v=value: restore(p, v))


def sounds(cases: Cases) -> None:
    import stoker
    from stoker import Audio

    data = sound()
    for value in VALUES:
        for name in ("sample_rate", "mono", "start", "duration"):
            cases.run(f"audiodecode({name}={value!r})", lambda n=name, v=value: stoker.audiodecode(data, **{n: v}))
        decoder = stoker.AudioDecoder(data)
        cases.run(f"samples from {value!r}", lambda d=decoder, v=value: d.get_samples_played_in_range(v))
        cases.run(f"samples to {value!r}", lambda d=decoder, v=value: d.get_samples_played_in_range(0, v))
        for name in ("rate", "duration", "channels", "mono"):

            def case(name: str = name, value: Any = value) -> None:
                field = Audio(**{"rate": 8000, "duration": 0.1, name: value})
                first_batch(
                    lambda: Loader([("a.wav", 0)] * 4, 2, fields={"audio": field, "label": None}, num_threads=1, memory_limit=MEMORY)
                )

            with open("a.wav", "wb") as f:
                f.write(data)
            cases.run(f"Audio({name}={value!r})", case)
    fields = {"audio": Audio(rate=8000, duration=0.1), "label": None}
    mutated(cases, "sounds", lambda: Loader([("a.wav", i) for i in range(8)], 2, fields=fields, num_threads=1, shuffle=True))


def clips(cases: Cases) -> None:
    import shutil
    import subprocess

    import stoker
    from stoker import samplers
    from stoker.loader import Video

    if not shutil.which("ffmpeg"):
        return
    words = "ffmpeg -nostdin -v error -f lavfi -i testsrc=s=32x32:r=10:d=2 -g 4 -pix_fmt yuv420p v.mp4"
    subprocess.run(words.split(), check=True)
    try:
        video = stoker.VideoDecoder("v.mp4")
    except stoker.errors.UnsupportedError:
        return
    for value in VALUES:
        for name in ("stream_index", "num_ffmpeg_threads"):
            cases.run(f"VideoDecoder({name}={value!r})", lambda n=name, v=value: stoker.VideoDecoder("v.mp4", **{n: v})[0])
        for call in ("get_frame_at", "get_frame_played_at", "__getitem__"):
            cases.run(f"{call}({value!r})", lambda c=call, v=value: getattr(video, c)(v))
        for call in ("get_frames_at", "get_frames_played_at"):
            cases.run(f"{call}([{value!r}])", lambda c=call, v=value: getattr(video, c)([0, v]))
        cases.run(f"frames of {value!r}:", lambda v=value: video.get_frames_in_range(v, 3))
        cases.run(f"frames of :{value!r}", lambda v=value: video.get_frames_in_range(0, v))
        cases.run(f"frames of ::{value!r}", lambda v=value: video.get_frames_in_range(0, 3, v))
        for whole in (slice(value, 3), slice(0, value), slice(0, 9, value)):
            cases.run(f"video[{whole}]", lambda w=whole: video[w])
        for times in ((value, 1), (0, value), (0, 1, value)):
            cases.run(f"frames played in {times}", lambda t=times: video.get_frames_played_in_range(*t))
        for name in samplers.__all__:
            sampler = getattr(samplers, name)
            for argument, parameter in inspect.signature(sampler).parameters.items():
                if parameter.kind is parameter.KEYWORD_ONLY and argument != "policy":
                    cases.run(f"{name}({argument}={value!r})", lambda f=sampler, a=argument, v=value: f(video, **{a: v}))
        for name in ("frames", "stride", "fps", "clips"):

            def field(name: str = name, value: Any = value) -> None:
                field = Video(**{"frames": 2, name: value})
                first_batch(
                    lambda: Loader([("v.mp4", 0)] * 4, 2, fields={"clip": field, "label": None}, num_threads=1, memory_limit=MEMORY)
                )

            cases.run(f"Video({name}={value!r})", field)
        for name in ("sequence_length", "stride", "step", "initial_fill", "pad_sequences", "start_frame", "image_type", "dtype"):

            def reader(name: str = name, value: Any = value) -> None:
                pipe = Pipeline(2, 1, None, memory_limit=MEMORY, prefetch_queue_depth=1)
                with pipe:
                    read = fn.readers.video(filenames=["v.mp4"], **{"sequence_length": 2, name: value})
                    pipe.set_outputs(*(read if isinstance(read, (list, tuple)) else [read]))
                pipe.run()

            cases.run(f"readers.video({name}={value!r})", reader)
        cases.run(f"frame {value!r} by name", lambda v=value: fn.eager.io.video.frame([np.frombuffer(b"v.mp4", np.uint8)], [np.asarray(v)]))
    mutated(cases, "clips", lambda: Loader([("v.mp4", i) for i in range(8)], 2, frames=2, num_threads=1, shuffle=True))


def rows(cases: Cases) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return
    columns = {"number": list(range(40)), "list": [[i, i + 1] for i in range(40)], "real": [i / 2 for i in range(40)]}
    pq.write_table(pa.table(columns), "t.parquet", row_group_size=4)
    for shuffle in (False, True, "groups"):
        mutated(cases, f"a table, shuffle={shuffle}", lambda s=shuffle: Loader("t.parquet", 4, shuffle=s))
    for value in VALUES:
        cases.run(
            f"from_parquet(memory={value!r})",
            lambda v=value: first_batch(lambda: Loader.from_parquet("t.parquet", 4, memory=v, shuffle="groups")),
        )
        cases.run(f"pad={value!r}", lambda v=value: first_batch(lambda: Loader("t.parquet", 4, pad=v)))
        for column in columns:
            cases.run(
                f"nulls {column} {value!r}",
                lambda c=column, v=value: first_batch(lambda: Loader.from_parquet("t.parquet", 4, nulls={c: v})),
            )


def recordings(cases: Cases) -> None:
    try:
        import robots
    except BaseException as e:  # importing robots.py raises pytest's Skipped if pyarrow is missing
        if type(e).__name__ != "Skipped":
            raise
        return
    os.mkdir("robot")
    robots.make(Path("robot"), (5, 6))
    given: dict[str, Callable[[Any], dict[str, Any]]] = {
        "delta_timestamps": lambda v: {"delta_timestamps": {"action": [0, v]}},
        "tolerance_s": lambda v: {"tolerance_s": v, "delta_timestamps": {"action": [0, 0.1]}},
        "episodes": lambda v: {"episodes": [0, v]},
        "batch_size": lambda v: {"batch_size": v},
        "global_batch_size": lambda v: {"batch_size": None, "global_batch_size": v},
        "seed": lambda v: {"seed": v, "shuffle": True},
        "shard": lambda v: {"shard": (v, 2)},
        "ranks": lambda v: {"shard": (0, v)},
        "num_threads": lambda v: {"num_threads": v},
    }
    for name, of in given.items():
        for value in VALUES:
            cases.run(
                f"from_lerobot({name}: {value!r})",
                lambda o=of, v=value: first_batch(lambda: Loader.from_lerobot("robot", **{"batch_size": 2, **o(v)})),
            )
    for value in VALUES:
        cases.run(f"robot sample {value!r}", lambda v=value: Loader.from_lerobot("robot", 2).dataset[v])
    mutated(cases, "robots", lambda: Loader.from_lerobot("robot", 2, shuffle=True, seed=1))
    info = json.loads(Path("robot/meta/info.json").read_text())
    for path in numbers_of(info):
        for value in (0, -1, 2**63 - 1, 1e300, math.nan, "1", None):

            def damaged(path: tuple[Any, ...] = path, value: Any = value) -> None:
                copy = json.loads(json.dumps(info))
                at = copy
                for step in path[:-1]:
                    at = at[step]
                at[path[-1]] = value
                with open("robot/meta/info.json", "w") as f:
                    json.dump(copy, f)
                list(Loader.from_lerobot("robot", 4, delta_timestamps={"action": [0, 0.1]}))

            cases.run(f"info.json {path} = {value!r}", damaged)


def mixtures(cases: Cases) -> None:
    import stoker
    import torch
    from stoker import metrics
    from stoker.structured.multi_tensor_copier import start_copy

    def images(n: int = 12, **more: Any) -> Loader:
        return Loader((np.zeros((n, 4, 4, 3), np.uint8), np.arange(n)), 2, num_threads=1, **more)

    def mix(**more: Any) -> Any:
        return Loader.mix({"a": (images(), 0.7), "b": (images(8), 0.3)}, steps=9, **more)

    for value in VALUES:
        cases.run(
            f"mix: share {value!r}", lambda v=value: first_batch(lambda: Loader.mix({"a": (images(), v), "b": (images(), 0.5)}, steps=4))
        )
        cases.run(f"mix: steps {value!r}", lambda v=value: first_batch(lambda: Loader.mix({"a": (images(), 1)}, steps=v)))
        cases.run(f"mix: epoch {value!r}", lambda v=value: first_batch(lambda: Loader.mix({"a": (images(), 1)}, epoch=v)))
        for name in ("images", "columns", "mean", "std"):
            cases.run(f"view({name}={value!r})", lambda n=name, v=value: stoker.view(np.zeros((2, 4, 4, 3), np.uint8), **{n: v}))
        cases.run(f"show({value!r})", lambda v=value: images().show(v))
        for name in ("max_packed_chunk_bytes", "min_packed_alignment_bytes"):
            if name in inspect.signature(start_copy).parameters:
                tree = [torch.zeros(3), torch.zeros(5)]
                cases.run(f"start_copy({name}={value!r})", lambda n=name, v=value, t=tree: start_copy(t, "cpu", **{n: v}).get())
        cases.run(f"metrics.Log(every={value!r})", lambda v=value: metrics.Log(images(), lambda *_: None, every=v).step())
        cases.run(f"metrics.prometheus(port={value!r})", lambda v=value: metrics.prometheus(images(), port=v).close())
    mutated(cases, "a mixture", mix)


GROUPS: dict[str, Callable[..., None]] = {
    "sounds": sounds,
    "clips": clips,
    "rows": rows,
    "recordings": recordings,
    "mixtures": mixtures,
    "settings": settings,
    "storage": storage,
    "loader": loader,
    "operators": each_operator,
    "batching": batching,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    faulthandler.enable()
    np.seterr(all="ignore")
    os.chdir(tempfile.mkdtemp())  # some values are used as names of files, which must not appear in the source tree
    cases = Cases()
    GROUPS[sys.argv[1]](cases, *map(int, sys.argv[2:]))
    print(f"# {cases.ran} cases, {cases.refused} refused", file=sys.stderr)
    sys.stdout.flush()
