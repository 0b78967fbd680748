# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of a Loader, and converts them to settings."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stoker import _needs, types
from stoker._numbers import INT64_MAX, flag, whole
from stoker._ranks import Shard, share, together
from stoker._settings import SETTINGS, PassedOn, check_limit, table
from stoker._signatures import hint_for
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StokerError, UnsupportedError
from stoker.loader._order import LARGEST_BATCH
from stoker.loader._refused import OF_DATASETS, OF_TORCH, OfTorch


class Arguments(PassedOn, total=False):
    """Further arguments of a Loader: settings of its pipeline, and arguments of torch's DataLoader, whose effect OF_TORCH says."""

    dataset: Any
    num_workers: Any
    persistent_workers: Any
    prefetch_factor: Any
    worker_init_fn: Any
    multiprocessing_context: Any
    in_order: Any
    pin_memory_device: Any
    generator: Any


class LoaderArguments(Arguments, total=False):
    """The arguments of a Loader that are passed by name: all except its source and its batch size."""

    transforms: Any
    global_batch_size: int | None
    shuffle: bool | str
    seed: int | str | None
    sampler: Any
    batch_sampler: Any
    shard: Any
    last_batch: str | None
    drop_last: bool | None
    device: Any
    dtype: Any
    memory_format: Any
    layout: str | None
    num_threads: int | str
    prefetch: int
    fields: Sequence[str] | Mapping[str, Any] | None
    ragged: Sequence[str]
    pin_memory: bool
    split: str | None
    exif_orientation: bool
    views: Sequence[tuple[int, Any]] | None
    frames: int | None
    stride: int
    python_workers: int
    collate_fn: Callable[[Any], Any] | None
    batch_transforms: Any
    pad: Any
    bucket_by: Any


# Names of all arguments, also in the forms that torch's data sets give to them.
ARGUMENTS = frozenset(("source", "batch_size", *LoaderArguments.__annotations__)) | OF_DATASETS

# Arguments of Loader's class methods that Loader itself does not have.
_OF_METHODS = {
    "Loader.from_csv": ("path", "targets", "root"),
    "Loader.from_tars": ("components", "index_paths", "missing_component_behavior"),
    "Loader.from_parquet": ("image", "nulls", "memory"),
    "Loader.from_lerobot": ("delta_timestamps", "episodes", "image_transforms", "tolerance_s", "columns"),
}


def source_of(source: Any, more: Arguments) -> Any:
    """Returns the source of a Loader: the first argument, or `dataset=` as in torch's DataLoader. Raises TypeError unless exactly one is given. Also raises an
    error if torch is not installed, before the source is read."""
    _needs.torch("Loader")
    named = more.get("dataset")
    if (source is None) == (named is None):
        raise TypeError("Loader: give one source: a folder, a list of files, a Dataset or a Pipeline")
    return named if source is None else source


def _unknown(name: str, names: Sequence[str]) -> TypeError:
    methods = [method for method, own in _OF_METHODS.items() if name in own]
    hint = (
        f"it is an argument of {' and '.join(methods)}"
        if methods
        else hint_for(name, dict.fromkeys([*names, *(n for n, of in OF_TORCH.items() if of.effect == "ignored"), *table(PassedOn)]), "")
    )
    return TypeError(f"Loader: there is no argument '{name}'" + (f"; {hint}" if hint else ""))


def refuse_unknown(arguments: Mapping[str, Any], method: Callable[..., Any], cls: type) -> None:
    """Raises TypeError for an unknown argument of one of Loader's class methods, before files are opened. cls: Loader, or a class that the user derived from
    it, whose constructor may pass further named arguments to Loader's constructor."""
    constructors = [vars(base)["__init__"] for base in cls.__mro__ if base is not object and "__init__" in vars(base)]
    own = [name for function in (method, *constructors) for name in inspect.signature(function).parameters]
    known = {*own, *table(PassedOn), *OF_TORCH}
    for name in arguments:
        if name not in known:
            raise _unknown(name, own)


def take_more(more: Arguments, names: list[str]) -> dict[str, Any]:
    """Returns those of the arguments `more` that are settings of the pipeline, without timeout=0. Prints a notice for arguments of torch's DataLoader without
    effect, and raises an error for arguments that are refused or unknown. names: the names of all arguments of a Loader, for advice."""
    settings = {}
    for name, value in more.items():
        of_torch = OF_TORCH.get(name, OfTorch("unknown"))
        if name in table(PassedOn):
            settings[name] = value
        elif of_torch.effect == "refused":
            raise InvalidArgumentError(f"Loader: there is no {name}: {of_torch.why}")
        elif of_torch.effect == "ignored":
            if value and (name, value) != ("in_order", True):
                notice(f"{name} is taken and ignored: {of_torch.why}")
        elif of_torch.effect != "used":
            raise _unknown(name, names)
    if settings.get("timeout") == 0:  # in torch's DataLoader, 0 means no limit
        del settings["timeout"]
    return settings


def checked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a Loader's pipeline. Raises an error, which names the Loader's argument, for a wrong setting."""
    for name, value in settings.items():
        try:
            SETTINGS[name].check(name, value)
        except (StokerError, TypeError) as e:
            text = str(e).replace("Pipeline: prefetch_queue_depth", "Loader: prefetch").replace("Pipeline: ", "Loader: ", 1)
            text = text.replace("Loader: num_threads is a whole", 'Loader: num_threads is "auto" or a whole')
            raise type(e)(text) from None
    check_limit("Loader", settings)
    return settings


OF_BATCHES = ("batch_size", "global_batch_size", "shuffle", "sampler", "drop_last", "last_batch")


OF_IMAGES = ("transforms", "views", "batch_transforms", "dtype", "memory_format", "layout", "frames", "exif_orientation", "bucket_by")


def refuse_with_batch_sampler(given: Mapping[str, Any]) -> None:
    """Raises InvalidArgumentError if an argument besides batch_sampler also determines the batches. given: all arguments of the Loader."""
    others = [name for name in OF_BATCHES if given[name] is not None and given[name] is not False]
    if others:
        raise InvalidArgumentError(
            f"Loader: batch_sampler gives the batches, and {', '.join(others)} would make others: leave out the one or the other"
        )


def refuse_of_images(given: Mapping[str, Any], padded: tuple[str, ...] | None) -> None:
    """Raises InvalidArgumentError if a Loader over a table without images has an argument that is about images. given: all arguments of the Loader. padded: the
    names of all fields if `size` or `padding_mask` is among them, which `pad` adds only to images; else None."""
    others = [name for name in OF_IMAGES if given[name]]
    if others:
        raise InvalidArgumentError(
            f"Loader: {others[0]} is about images, and no column of images of this table is read: leave {others[0]} out and change batches with a collate_fn, "
            "or name the column of images in fields, as {'COLUMN': 'Image'}"
        )
    if isinstance(given["pad"], Mapping):
        raise InvalidArgumentError(f"Loader: lists of numbers in a table are padded with one number, as pad=0, not {given['pad']!r}")
    if padded is not None:
        raise InvalidArgumentError("Loader: pad adds the fields size and padding_mask to images only: leave them out of fields")


def batch_of(batch_size: int | None, global_batch_size: int | None, shard: Shard) -> int:
    """Returns the batch size of this rank. Raises an error unless exactly one of the sizes is given, and the number of ranks divides global_batch_size."""
    if (batch_size is None) == (global_batch_size is None):
        raise InvalidArgumentError("Loader: give batch_size (of each rank) or global_batch_size")
    ranks = shard.world if batch_size is None else 1
    size = whole("Loader: a batch size", batch_size if batch_size is not None else global_batch_size, 1, LARGEST_BATCH * ranks)
    if batch_size is None:
        if size % shard.world:
            raise InvalidArgumentError(f"Loader: global_batch_size={size} is not divided by {shard.world} ranks")
        size //= shard.world
    return size


def _seed_of_torch(shard: Shard) -> int:
    """Returns rank 0's seed of torch.manual_seed, or 0 if there is none. Ranks without a process group cannot agree on a seed, and get 0.

    If a program has not called torch.manual_seed, torch.initial_seed() returns a random number of 64 bits, which looks like any other seed. So only numbers of
    32 bits, also negative ones, count as the user's.
    """
    torch = sys.modules.get("torch")
    seed = int(torch.initial_seed()) if torch is not None and hasattr(torch, "initial_seed") else 0
    own = seed & (2**63 - 1) if min(seed, 2**64 - seed) < 2**32 else 0
    if shard.world == 1:
        return own
    return 0 if together(shard) is None else int(share("the seed of torch.manual_seed", str(own), shard))


def seed_of(seed: int | str | None, shard: Shard) -> int:
    """Returns the seed of a Loader. None: draws a seed from the system's random numbers, the same for all ranks; states contain it, and repr() shows it.
    "torch": the seed of torch.manual_seed, or 0. Other values must be whole numbers of at least 0; raises an error otherwise."""
    if seed == "torch":
        return _seed_of_torch(shard)
    if seed is None:
        return int(share("the seed that seed=None drew", str(int.from_bytes(os.urandom(6), "little")), shard))
    return whole("Loader: seed (None draws one)", seed, 0, INT64_MAX)


def check_flags(**given: Any) -> None:
    """Raises ArgumentError if an argument is not True, False, None, 0 or 1."""
    for name, value in given.items():
        flag(f"Loader: {name}", value, also=', "shards" for tars, or "groups" for tables' if name == "shuffle" else "")


def refuse_what_a_pipeline_has(signature: inspect.Signature, given: dict[str, Any]) -> None:
    """Raises InvalidArgumentError if a Loader over a Pipeline has arguments without effect: a Pipeline has its own reader, transforms and settings."""
    ours = ("self", "source", "fields", "device", "shard", "pin_memory", "collate_fn", "batch_transforms", "dataloader_arguments")
    others = [n for n, p in signature.parameters.items() if n not in ours and n in given and given[n] is not p.default]
    others = [n for n in others if given[n] != signature.parameters[n].default]
    if others:
        raise InvalidArgumentError(
            f"Loader: {', '.join(others)} would have no effect on a Pipeline, which has its own: give "
            f"{'them' if len(others) > 1 else 'it'} to pipeline_def or to the pipeline's operators"
        )


def workers_of(python_workers: int) -> int:
    return whole("Loader: python_workers (a number of processes, 0 for threads)", python_workers, 0, 1024)


def processes_of(context: Any) -> Any:
    """Returns the multiprocessing context for a name or a context; for None, the one that forks, as in torch's DataLoader on Linux. Raises InvalidArgumentError
    for an unknown name."""
    import multiprocessing

    if context is not None and not isinstance(context, str):
        return context
    try:
        return multiprocessing.get_context(context or "fork")
    except ValueError as e:
        raise InvalidArgumentError(f"Loader: multiprocessing_context: {e}") from None


def can_pin() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def tail_of(last_batch: str | None, drop_last: bool | None) -> str:
    """Returns what to do with a last batch that is not full: "drop", "keep" or "pad". The default is "keep", as for a DataLoader.

    Raises InvalidArgumentError if the two arguments contradict each other or last_batch is another word.
    """
    if drop_last is not None and last_batch not in (None, "drop" if drop_last else "keep"):
        raise InvalidArgumentError(
            f"Loader: drop_last={drop_last} and last_batch={last_batch!r} contradict each other: leave one of them out"
        )
    if last_batch is None and drop_last is not None:  # drop_last has the meaning that it has for torch's DataLoader
        last_batch = "drop" if drop_last else "keep"
    if last_batch is None:
        last_batch = "keep"
    if last_batch not in ("drop", "keep", "pad"):
        raise InvalidArgumentError(f"Loader: last_batch is 'drop', 'keep' or 'pad', not {last_batch!r}")
    return last_batch


def device_id_of(device: Any) -> int | None:
    """Returns the index of a GPU, or None for the CPU. device: "cpu", "cuda:1", "gpu:1", a torch.device or an index; "cuda" and "gpu" mean torch's current GPU.
    Raises InvalidArgumentError for other values."""
    text = f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else str(device)
    if text in ("cpu", "cpu:0"):
        return None
    name, colon, number = text.partition(":")
    if name not in ("cuda", "gpu") or (colon and not number.isdigit()):
        raise InvalidArgumentError(f"Loader: device is 'cpu', 'cuda' or 'cuda:N', not {text!r}")
    return int(number) if number else _current_gpu()


def _current_gpu() -> int:
    import torch

    # If torch finds no CUDA, returns 0: the library then uses GPU 0, or raises an error if there is none.
    return int(torch.cuda.current_device()) if torch.cuda.is_available() else 0


def channels_last_of(memory_format: Any) -> bool:
    name = str(memory_format).removeprefix("torch.")
    if memory_format is None or name == "contiguous_format":
        return False
    if name == "channels_last":
        return True
    raise UnsupportedError(f"Loader: memory_format is torch.contiguous_format or torch.channels_last, not {memory_format!r}")


def dtype_of(dtype: Any) -> types.DALIDataType | None:
    return None if dtype is None else types.to_dtype(dtype)
