# SPDX-License-Identifier: Apache-2.0
"""Decides which work of a DataLoader runs in C, and says why other work runs in Python."""

from __future__ import annotations

import dis
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.dataloader._reasons import InPython
from stoker.dataloader._samples import Gather, Reader, gather, reader
from stoker.dataloader._transforms import Compiled, compiled

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_log = logging.getLogger("stoker.dataloader")
_announced: set[str] = set()


@dataclass
class Plan:
    """The work that runs in C: images by `reader` and `compiled`, or tensors by `gather`. If all are None, `reason` says why torch's code runs."""

    reader: Reader | None = None
    compiled: Compiled | None = None
    gather: Gather | None = None
    reason: str = ""

    @property
    def in_c(self) -> bool:
        return self.gather is not None or self.reader is not None

    def line(self, loader: Any) -> str:
        """Returns one line for the user about what runs in C and what in Python."""
        if self.gather is not None:
            return f"{self.gather.summary}: whole batches are indexed at once; nothing runs for a sample"
        if self.reader is None:
            where = f"{loader.num_workers} worker processes" if loader.num_workers else "this thread"
            return f"all of it runs in Python, in {where}, as with torch's DataLoader: {self.reason}"
        read = "reading, decoding and transforms" if self.reader.files else "transforms"
        also = [what for what in (self.reader.python, _collates(loader)) if what]
        python = f"; in Python, in this thread: {' and '.join(also)}" if also else ""
        return f"{self.reader.summary}: {read} run in C{python}"

    def tell(self, loader: Any) -> None:
        line = self.line(loader)
        if line not in _announced and os.environ.get("STOKER_QUIET", "") in ("", "0") and os.environ.get("RANK", "0") == "0":
            _announced.add(line)
            _log.warning("stoker.DataLoader: %s", line)


def plan(loader: DataLoader[Any]) -> Plan:
    """Returns the Plan for a DataLoader, as it is now. An error that the user's objects raise becomes the Plan's reason."""
    try:
        _check_arguments(loader)
        found = gather(loader.dataset) if is_default(loader.collate_fn) else None
        if found is not None:
            return Plan(gather=found)
        read = reader(loader.dataset)
        if read.slow and loader.num_workers:
            raise InPython(f"{read.python} takes so much time that it would hold up the loop, and workers run it next to the loop")
        if not loader.num_workers:
            read.forget()
        made = compiled(read.transform)
        if made.draws:
            _check_generator(loader)
        return Plan(read, made)
    except InPython as e:
        return Plan(reason=str(e))
    except Exception as e:  # the checks above read attributes of the user's objects, which may raise any error; torch may never read them
        return Plan(reason=f"{type(e).__name__}: {e}")


def is_default(collate_fn: Any) -> bool:
    from torch.utils.data import default_collate

    return collate_fn is default_collate


def _collates(loader: Any) -> str:
    if is_default(loader.collate_fn):
        return ""
    return f"the collate_fn {getattr(loader.collate_fn, '__qualname__', None) or type(loader.collate_fn).__name__}"


def _check_arguments(loader: Any) -> None:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        raise InPython(f"{type(loader.dataset).__name__} is an IterableDataset")
    if loader.batch_sampler is None:
        raise InPython("batch_size=None: samples are not made batches of")
    if loader.num_workers == 0 and loader.timeout:
        raise InPython("timeout without workers")
    if loader.num_workers and not loader.prefetch_factor:
        raise InPython("prefetch_factor is 0")
    if loader.num_workers and loader.worker_init_fn is not None and not _only_seeds(loader.worker_init_fn):
        raise InPython(
            f"the worker_init_fn {getattr(loader.worker_init_fn, '__qualname__', loader.worker_init_fn)} may change the dataset in each worker"
        )


def _check_generator(loader: Any) -> None:
    """Raises InPython if the transforms' draws decide the order of later epochs, as they do in torch without workers: both come from the default generator,
    unless the sampler has its own. This matters only if the program has seeded that generator, which a seed below 2**32 shows. Otherwise torch has drawn a
    random 64-bit seed, and the order cannot be repeated anyway."""
    import torch
    from torch.utils.data import DistributedSampler, SequentialSampler

    inner = getattr(loader.batch_sampler, "sampler", loader.batch_sampler)
    seed = torch.initial_seed()
    if loader.num_workers or type(inner) in (SequentialSampler, DistributedSampler) or min(seed, 2**64 - seed) >= 2**32:
        return
    if getattr(inner, "generator", None) is None:
        raise InPython(
            "torch.manual_seed was called, and without workers the draws of the transforms decide the order of later epochs: num_workers=1 or more, or a "
            "generator for the sampler, lets the images be made in C"
        )


_SEEDING = {
    "cuda",
    "get_worker_info",
    "id",
    "initial_seed",
    "int",
    "manual_seed",
    "manual_seed_all",
    "np",
    "numpy",
    "random",
    "seed",
    "set_num_threads",
    "torch",
    "utils",
    "data",
    "worker_info",
}
_LIBRARIES = {"pl_worker_init_function": "lightning", "seed_worker": "transformers"}


def _only_seeds(function: Any) -> bool:
    """Returns whether a worker_init_fn certainly only seeds random generators of its process, which compiled transforms do not use."""
    wrapped = getattr(function, "func", function)
    home = str(getattr(wrapped, "__module__", "")).replace("pytorch_lightning", "lightning")
    if _LIBRARIES.get(getattr(wrapped, "__name__", "")) == home.partition(".")[0]:
        return True
    code = getattr(wrapped, "__code__", None)
    if code is None or any(
        i.opname.startswith(("STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "DELETE_")) for i in dis.get_instructions(code)
    ):
        return False
    simple = all(not hasattr(constant, "co_code") for constant in code.co_consts)
    return simple and "dataset" not in code.co_names and set(code.co_names) <= _SEEDING
