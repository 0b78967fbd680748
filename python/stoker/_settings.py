# SPDX-License-Identifier: Apache-2.0
"""The settings of a pipeline in one table: name, type, default, meaning, whether serialize() writes it, and its name in the C module.

Type checkers read the annotations of this file's classes (Pipeline takes **kwargs: Unpack[ByName]), and this module reads them at run time. So this file cannot
use `from __future__ import annotations`.
"""

import contextlib
import errno
import inspect
import json
import math
import numbers
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, TypeVar

from stoker import _files, _foreign_state, _numbers, types
from stoker._processes import METHODS
from stoker._signatures import Quiet, Shown, filled, hint_for
from stoker._storage import Storage
from stoker.errors import InvalidArgumentError, StateError, UnsupportedError


@dataclass(frozen=True)
class Setting:
    """The properties of a setting, except its name and type.

    check: a function of (name, value) that converts a value, or the default, to the form that is stored, or raises an error. core: the setting's name in the C
    module; None: the C module does not have it. to_core: converts the stored form for the C module. kept: whether serialize() writes it. meant: False for
    arguments that have no effect and exist only for compatibility with DALI.
    """

    doc: str
    check: Callable[[str, Any], Any]
    default: Any = None
    core: str | None = None
    to_core: Callable[[Any], Any] | None = None
    kept: bool = True
    meant: bool = True


# ---- checks of values ----


_MOST_BATCH = 1 << 20
_MOST_THREADS = 4096
_MOST_PREFETCH = 1024
_MOST_REQUESTS = 1 << 20
_MOST_PROCESSES = 1024


def _whole(name: str, value: Any, least: int, most: int = _numbers.INT32_MAX) -> int:
    return _numbers.whole(f"Pipeline: {name}", value, least, most)


def _most_batches(name: str, value: Any) -> int:
    """Checks a number of batches. None becomes 0, the library's default, here and in _most_requests and _bytes."""
    return 0 if value is None else _whole(name, value, 0)


def _most_requests(name: str, value: Any) -> int:
    return 0 if value is None else _whole(name, value, 0, _MOST_REQUESTS)


def _bytes(name: str, value: Any) -> int:
    return 0 if value is None else _numbers.size(f"Pipeline: {name}", value)


def _is(value: Any, default: int) -> bool:
    """Returns whether the value is None or `default`, DALI's number for None. Checks the type first, because comparing an array would raise an error."""
    return value is None or (isinstance(value, numbers.Real) and not isinstance(value, bool) and value == default)


def _batch_size(name: str, value: Any) -> int:
    if value is None:
        raise InvalidArgumentError("Pipeline: batch_size is needed: Pipeline(batch_size=...) or @pipeline_def(batch_size=...)")
    return _whole(name, value, 1, _MOST_BATCH)


def _threads(name: str, value: Any) -> int | None:
    return None if _is(value, -1) else _whole(name, value, 1, _MOST_THREADS)


def _device(name: str, value: Any) -> int | None:
    return None if _is(value, types.CPU_ONLY_DEVICE_ID) else _whole(name, value, 0)


def _seed(name: str, value: Any) -> int | None:
    """Converts None and DALI's -1 to None, for a seed that is drawn later, and other numbers to 64 bits without a sign."""
    return None if _is(value, -1) else _whole(name, value, -(2**63), 2**64 - 1) & (2**64 - 1)


def _prefetch(name: str, value: Any) -> int:
    if isinstance(value, dict):  # DALI's separate queues
        return max(_whole(f"{name}[{key!r}]", value.get(key, 2), 1, _MOST_PREFETCH) for key in ("cpu_size", "gpu_size"))
    return _whole(name, value, 1, _MOST_PREFETCH)


_ON_ERROR = {"raise": 0, "skip": 1, "replace": 2}


def _on_error(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in _ON_ERROR:
        raise InvalidArgumentError(f"Pipeline: {name} is 'raise', 'skip' or 'replace', not {value!r}")
    return str(value)


_DECODE = {"auto": 0, "gpu": 1, "cores": 2}


def _decode(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in _DECODE:
        raise InvalidArgumentError(f"Pipeline: {name} is 'auto', 'gpu' or 'cores', not {value!r}")
    return str(value)


def _dtypes(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_dtypes(name, d) for d in value]
    dtype = None if value is None else types.to_dtype(value)
    if dtype == types.NO_TYPE:
        raise InvalidArgumentError(f"Pipeline: {name} is a type of elements, not types.NO_TYPE; None leaves it open")
    return dtype


def _share_or_count(name: str, value: Any) -> float | None:
    """Checks a share of an epoch (below 1) or a number of samples. Returns None, the library's default, for None. Raises an error for negative numbers, and for
    fractions above 1."""
    if value is None:
        return None
    number = _numbers.number(f"Pipeline: {name}", value)
    if number > 1 and not number.is_integer():
        raise InvalidArgumentError(f"Pipeline: {name} is a share of an epoch, below 1, or a whole number of samples, not {value!r}")
    return number


def _seconds(name: str, value: Any) -> float | None:
    """Returns a time limit in seconds; None, which means no limit, for None and infinity. name: the setting's name in errors."""
    seconds = math.inf if value is None else _numbers.number(f"Pipeline: {name}", value)
    return None if seconds == math.inf else seconds


def _path(name: str, value: Any) -> str | None:
    path = None if value is None else os.fsdecode(value)
    if path == "":
        raise InvalidArgumentError(f"Pipeline: {name} is the path of a file, and this one is empty")
    return path


def _flag(name: str, value: Any) -> bool:
    return _numbers.flag(f"Pipeline: {name}", value)


def _storage(name: str, value: Any) -> Storage | None:
    if value is None or isinstance(value, Storage):
        return value
    raise TypeError(f"Pipeline: {name} is a stoker.Storage, not {type(value).__name__}")


def _as_given(_: str, value: Any) -> Any:
    return value


def _dims(name: str, value: Any) -> Any:
    for number in value if isinstance(value, (list, tuple)) else [value]:
        if number is not None:
            _whole(name, number, 0)
    return value


def _processes(name: str, value: Any) -> int:
    return _whole(name, value, 0, _MOST_PROCESSES)


def _start_method(name: str, value: Any) -> str:
    if value not in METHODS:
        raise InvalidArgumentError(f"Pipeline: {name} is one of {', '.join(METHODS)}, not {value!r}")
    return str(value)


def _no_debug(name: str, value: Any) -> None:
    if value:
        raise UnsupportedError(
            f"{name}=True: a definition does not run step by step. fn.eager calls one operator on arrays, and python_function shows values of a pipeline"
        )


# ---- the table ----


class Leading(TypedDict, total=False):
    """Settings that may be given by position."""

    batch_size: Annotated[int | None, Setting("samples in a batch.", _batch_size, core="batch_size")]
    num_threads: Annotated[
        int | None, Setting("worker threads; None: as many as affinity, cgroup quota and LOCAL_WORLD_SIZE allow this process.", _threads)
    ]
    device_id: Annotated[
        int | None,
        Setting(
            'number of the GPU; an error if the machine lacks it. None: the CPU only; device="mixed", device="gpu" and .gpu() then have no effect.',
            _device,
            core="device_id",
            to_core=lambda value: -1 if value is None else value,
        ),
    ]
    seed: Annotated[
        int | None,
        Setting("seed of all random operators; None draws one. With a checkpoint it is the checkpoint's seed.", _seed, core="seed"),
    ]


class PassedOn(TypedDict, total=False):
    """Settings that a Loader takes too, and passes to its pipeline."""

    on_error: Annotated[
        str,
        Setting(
            'what a damaged sample does: "raise", "skip" (its batch is shorter; Loader and iterators leave out a batch of which all samples are bad) '
            'or "replace" (another sample is read instead).',
            _on_error,
            default="raise",
            core="on_error",
            to_core=_ON_ERROR.__getitem__,
        ),
    ]
    max_errors: Annotated[
        float | None,
        Setting(
            "the most samples that may be skipped or replaced: a share of an epoch (< 1) or a number; 0: none; 1% by default.",
            _share_or_count,
            core="max_errors",
            to_core=lambda limit: 0.0 if limit is None else limit or -1.0,  # -1 is STK_NO_BAD_SAMPLES
        ),
    ]
    timeout: Annotated[float | None, Setting("the longest wait for a batch, in seconds; no limit by default.", _seconds)]
    memory_limit: Annotated[
        int | None,
        Setting(
            'bytes that one sample may take, its file and decoding included, as a number or as "4GiB"; 2 GiB by default. The other sizes may have units too.',
            _bytes,
            core="memory_limit",
        ),
    ]
    gpu_memory_limit: Annotated[
        int | None,
        Setting(
            "bytes of the GPU's memory for decoding (the CPU decodes a file that needs more than half of them) and for batches beyond the prefetched ones, or "
            "for CIFAR's images, which are kept there if they fit, else uploaded batch by batch. By default a 32nd of the free memory, at least 928 MiB, but "
            "never more than a quarter of it.",
            _bytes,
            core="gpu_memory",
        ),
    ]
    decode: Annotated[
        str,
        Setting(
            'what decodes the JPEG files of a pipeline on a GPU: "gpu", "cores" (the CPU), or "auto": the cores if they are fast enough. '
            "The batches are the same.",
            _decode,
            default="auto",
            core="decode",
            to_core=_DECODE.__getitem__,
        ),
    ]
    held_limit: Annotated[
        int | None,
        Setting(
            "the most bytes, of host memory and of the GPU's memory each, of outputs that the program keeps while the pipeline continues, in addition to about "
            "16 batches; by default half of the free memory. An output of up to 1 MB, such as labels, keeps no other memory alive.",
            _bytes,
            core="held_limit",
        ),
    ]
    strict: Annotated[
        bool,
        Setting("False accepts damaged JPEG files that can still be decoded.", _flag, default=True, core="lenient", to_core=operator.not_),
    ]
    storage: Annotated[
        Storage | None,
        Setting(
            "a stoker.Storage, which describes how to read objects that are not on a local disk; None: one with the environment's settings.",
            _storage,
            core="storage",
            to_core=lambda value: None if value is None else value.core(),
            kept=False,
        ),
    ]
    read_requests: Annotated[
        int | None,
        Setting(
            "the most reads that are prepared at the same time, up to 2^20; by default 256, or 1024 from a store, of which only as many are sent as make "
            "reading faster.",
            _most_requests,
            core="read_requests",
        ),
    ]
    read_bytes: Annotated[
        int | None, Setting("bytes that are read ahead; by default 32 MiB, or 160 MiB from a store.", _bytes, core="read_bytes")
    ]
    # `trace` is not serialised, because another process would overwrite the file.
    trace: Annotated[
        str | os.PathLike[str] | None, Setting("path of a file to which a Chrome trace is written.", _path, core="trace", kept=False)
    ]


def _accepted(doc: str = "", check: Callable[[str, Any], Any] = _as_given) -> Setting:
    return Setting(doc, check, kept=False, meant=False)


class ByName(PassedOn, total=False):
    """Settings that must be given by name."""

    max_batch_size: Annotated[int | None, Setting("DALI's other name for batch_size.", _as_given, kept=False)]
    prefetch_queue_depth: Annotated[
        int | dict[str, int], Setting("number of finished batches to keep ready.", _prefetch, default=2, core="prefetch")
    ]
    checkpoint: Annotated[
        str | bytes | os.PathLike[str] | None,
        Setting("a state that checkpoint() returned, or the path of its file.", _as_given, kept=False),
    ]
    output_dtype: Annotated[
        Any,
        Setting("expected type of all outputs, or a list with one for each (None: any). Outputs of another type are an error.", _dtypes),
    ]
    output_ndim: Annotated[int | Sequence[int | None] | None, Setting("the same for numbers of dimensions.", _dims)]
    output_layout: Annotated[str | Sequence[str | None] | None, Setting("the same for layouts.", _as_given)]
    fuse: Annotated[
        bool,
        Setting(
            "False runs each operator separately, as STOKER_FUSE=0 does. The results are the same.",
            _flag,
            default=True,
            core="no_fuse",
            to_core=operator.not_,
        ),
    ]
    max_batches: Annotated[
        int | None,
        Setting(
            "the largest number of batches that may be prepared or kept at the same time; no limit by default.",
            _most_batches,
            core="max_batches",
        ),
    ]

    enable_conditionals: Annotated[
        bool,
        Setting(
            "if, elif, else, and, or, not in the definition may depend on a sample's data: each sample then runs only through its branch.",
            _flag,
            default=False,
        ),
    ]

    exec_pipelined: Annotated[Any, _accepted()]
    exec_async: Annotated[Any, _accepted()]
    exec_dynamic: Annotated[Any, _accepted()]
    experimental_exec_dynamic: Annotated[Any, _accepted()]
    bytes_per_sample: Annotated[Any, _accepted()]
    set_affinity: Annotated[Any, _accepted()]
    max_streams: Annotated[Any, _accepted()]
    default_cuda_stream_priority: Annotated[Any, _accepted()]
    enable_memory_stats: Annotated[Any, _accepted()]
    enable_checkpointing: Annotated[Any, _accepted("a state can always be taken")]
    debug: Annotated[Any, _accepted("True is refused", _no_debug)]
    py_num_workers: Annotated[int, Setting("processes for each external_source(parallel=True).", _processes, default=1)]
    py_start_method: Annotated[str, Setting('how they start: "fork", "spawn" or "forkserver".', _start_method, default="fork")]
    py_callback_pickler: Annotated[
        Any, Setting("pickles callables for processes that are not forked: a module, or (dumps, loads).", _as_given, kept=False)
    ]
    stream_policy: Annotated[Any, _accepted()]
    concurrency: Annotated[Any, _accepted()]


class Arguments(Leading, ByName, total=False):
    """All settings of a pipeline: those that may be given by position, and those that need their names."""


def table(arguments: Any) -> dict[str, Setting]:
    """Returns a dict from names to settings for one of the classes above."""
    return {name: hint.__metadata__[0] for name, hint in arguments.__annotations__.items()}


SETTINGS = table(Arguments)

# The positional arguments after seed, in DALI's order.
_POSITIONAL = (
    "exec_pipelined",
    "prefetch_queue_depth",
    "exec_async",
    "bytes_per_sample",
    "set_affinity",
    "max_streams",
    "default_cuda_stream_priority",
)


# ---- the settings of one pipeline ----


class Settings:
    """The settings of one pipeline: an attribute for each setting that has an effect."""

    seed: int

    def __init__(self, given: dict[str, Any]) -> None:
        self.accepted: dict[str, Any] = {}  # arguments without effect, as given
        self.queues: dict[str, int]  # prefetch_queue_depth as given, if it is a dict for DALI's two queues; else {}
        for name in given:
            if name not in SETTINGS:
                hint = hint_for(name, SETTINGS, "")
                raise TypeError(f"Pipeline: there is no argument '{name}'" + (f"; {hint}" if hint else ""))
        if given.get("batch_size") is None:
            given = {**given, "batch_size": given.get("max_batch_size")}
        for name, setting in SETTINGS.items():
            value = setting.check(name, given.get(name, setting.default))
            if setting.meant:
                self.__dict__[name] = value
            elif value is not None:
                self.accepted[name] = value
        check_limit("Pipeline", given)
        depth = given.get("prefetch_queue_depth", self.prefetch_queue_depth)
        self.queues = dict(depth) if isinstance(depth, dict) else {}
        kept = _seed_of(self.checkpoint)  # the order of samples continues with the state's seed, so random operators must use that seed too
        if kept is not None:
            self.seed = kept
        elif self.seed is None:
            self.seed = int.from_bytes(os.urandom(7), "little")

    def __getattr__(self, name: str) -> Any:  # exists for type checkers; Python calls it only for unknown attributes
        raise AttributeError(name)

    @classmethod
    def from_arguments(cls, leading: Leading, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "Settings":
        """Makes settings from the arguments of Pipeline. leading: its named parameters. args: further positional arguments, whose names are in _POSITIONAL.
        Raises TypeError for too many."""
        if len(args) > len(_POSITIONAL):
            raise TypeError(f"Pipeline takes at most {len(leading) + len(_POSITIONAL)} positional arguments")
        return cls({**leading, **dict(zip(_POSITIONAL, args, strict=False)), **kwargs})

    def core_arguments(self) -> dict[str, Any]:
        """Returns the settings as keyword arguments of the C module's Pipeline."""
        return {
            s.core: s.to_core(self.__dict__[name]) if s.to_core else self.__dict__[name]
            for name, s in SETTINGS.items()
            if s.core is not None
        }

    def as_json(self) -> dict[str, Any]:
        """Returns the names and values of the settings that serialize() writes."""
        return {name: self.__dict__[name] for name, setting in SETTINGS.items() if setting.kept}

    @staticmethod
    def from_json(data: dict[str, Any]) -> dict[str, Any]:
        """Makes keyword arguments of Pipeline from the result of as_json. Drops unknown names, and arguments that have no effect."""
        return {k: v for k, v in data.items() if k in SETTINGS and SETTINGS[k].meant}

    def declared(self, count: int) -> list[tuple[Any, int | None, str | None]]:
        """Returns the declared (dtype, ndim, layout) of each output, with None for a part that was not declared. Raises InvalidArgumentError if a list of
        declarations does not have `count` entries."""
        lists = []
        for what, given in (("type", self.output_dtype), ("number of dimensions", self.output_ndim), ("layout", self.output_layout)):
            values = list(given) if isinstance(given, (list, tuple)) else [given] * count
            if len(values) != count:
                raise InvalidArgumentError(f"{len(values)} values were declared for the {what} of {count} outputs")
            lists.append(values)
        return list(zip(*lists, strict=True))

    def check_outputs(self, described: Sequence[tuple[int, int, str]]) -> bool:
        """Compares the declared (dtype, ndim, layout) of each output with the real one, and raises InvalidArgumentError if they differ. Returns False if a
        declared part could not be compared, because the real one is not known yet (-1)."""
        complete = True
        for i, (wanted, actual) in enumerate(zip(self.declared(len(described)), described, strict=True)):
            for what, want, have in zip(("type", "number of dimensions", "layout"), wanted, actual, strict=True):
                unknown = have == -1 or (what == "layout" and actual[1] == -1)
                complete &= want is None or not unknown
                if want is not None and not unknown and want != have:
                    shown = types.DALIDataType(actual[0]) if what == "type" else have
                    raise InvalidArgumentError(f"output {i}: {what} {want!r} was declared, it is {shown!r}")
        return complete


def check_limit(owner: str, given: Mapping[str, Any]) -> None:
    """Raises InvalidArgumentError if max_errors is given without on_error, as it would have no effect. owner: "Pipeline" or "Loader". given: settings."""
    if given.get("max_errors") and given.get("on_error") is None:
        raise InvalidArgumentError(
            f"{owner}: max_errors={given['max_errors']!r} limits how many bad samples are skipped or replaced, but without on_error the first one is an error: "
            'give on_error="skip" or "replace" too'
        )


def read_state(state: str | bytes | os.PathLike[str]) -> str:
    """Returns the text of a state. state: the text as str or bytes, or the path of a file with it. Raises FileNotFoundError if the file does not exist, and
    StateError for a text that is damaged or is not a state."""
    if isinstance(state, bytes) and state.lstrip().startswith(b"{"):
        return _decoded(state, "")
    if not isinstance(state, (str, os.PathLike)):
        raise _foreign_state.refused(state, _foreign_state.PIPELINE)
    if isinstance(state, str) and state.lstrip().startswith("{"):
        return _decoded(state.encode(errors="surrogatepass"), "")
    try:
        data = _files.read_bytes(state)
    except ValueError:  # the text is no path: it has a zero byte, or half of a surrogate pair
        raise _foreign_state.refused(state, _foreign_state.PIPELINE) from None
    except FileNotFoundError:
        why = "no such file; a checkpoint is what Pipeline.checkpoint() returns, or the name of the file that it wrote"
        raise FileNotFoundError(errno.ENOENT, why, os.fspath(state)) from None
    return _decoded(data, f"{os.fsdecode(state)}: ")


def _decoded(data: bytes, where: str) -> str:
    try:
        return _text_of(data.decode())
    except UnicodeDecodeError as e:
        raise StateError(f"{where}the state is damaged: it is no text in UTF-8 ({e})") from None


def _text_of(text: str) -> str:
    """Returns the text. Raises StateError if it is the state of another object of Stoker, saved as JSON."""
    if '"stoker_' in text:
        with contextlib.suppress(ValueError, RecursionError):
            given = json.loads(text)
            if isinstance(given, dict) and any(mark in given for mark in _foreign_state.KINDS):
                raise _foreign_state.refused(given, _foreign_state.PIPELINE)
    return text


def _seed_of(checkpoint: Any) -> int | None:
    """Returns the seed in a saved state; None without a state, and for a damaged state, which the pipeline refuses when it reads the whole state."""
    if checkpoint is not None:
        with contextlib.suppress(ValueError, TypeError, KeyError, OverflowError, RecursionError, StateError):
            return int(json.loads(read_state(checkpoint))["seed"])
    return None


# ---- documentation ----

_Class = TypeVar("_Class", bound=type)
_WIDTH = 76  # help() indents the text of a class by four columns


def _described(settings: dict[str, Setting]) -> str:
    lines = [f"{name}: {s.doc}" for name, s in settings.items() if s.meant]
    text = "\n".join(filled(line, _WIDTH, "    ") for line in lines)
    accepted = [name + (f" ({s.doc})" if s.doc else "") for name, s in settings.items() if not s.meant]
    if accepted:
        text += "\n\n" + filled(f"Accepted for compatibility with DALI, without effect: {', '.join(accepted)}.", _WIDTH)
    return text


def _spelled_out(function: Callable[..., Any], arguments: Any, rest: str | None, brief: Sequence[str]) -> inspect.Signature:
    """Returns the function's signature with each setting in place of **kwargs. rest: name of a **kwargs parameter to put after them. brief: names of the
    parameters that help() shows."""
    p = inspect.Parameter
    given = inspect.signature(function)
    kept = [
        a if a.name in ("self", *brief) else Quiet(a.name, a.kind, default=a.default, annotation=a.annotation)
        for a in given.parameters.values()
        if a.kind is not p.VAR_KEYWORD
    ]
    named = [
        Quiet(name, p.KEYWORD_ONLY, default=setting.default, annotation=arguments.__annotations__[name].__origin__)
        for name, setting in table(arguments).items()
    ]
    last = [Quiet(rest, p.VAR_KEYWORD, annotation=Any)] if rest else []
    return Shown([*kept, *named, *last], return_annotation=given.return_annotation)


def takes(arguments: Any, shown: Any = None, rest: str | None = None, brief: Sequence[str] = ()) -> Callable[[_Class], _Class]:
    """Decorates a class whose __init__ takes settings as **kwargs. Lists each setting in the signature, and replaces {settings} in the docstring by their
    meanings. shown: the settings to document, if not those in `arguments`. rest, brief: as in _spelled_out."""

    def decorate(cls: _Class) -> _Class:
        if cls.__doc__ is not None:  # python -OO removes docstrings
            text = _described(table(shown or arguments))
            cls.__doc__ = inspect.cleandoc(cls.__doc__).replace("{settings}", text)
        init: Any = cls.__init__  # type: ignore[misc]
        init.__signature__ = _spelled_out(init, arguments, rest, brief)
        return cls

    return decorate
