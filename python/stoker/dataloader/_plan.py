# SPDX-License-Identifier: Apache-2.0
"""Decides which work of a DataLoader runs in C, and says why other work runs in Python."""

from __future__ import annotations

import dis
import functools
import logging
import os
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.dataloader._code import PLAIN, global_of
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
            if loader.num_workers:
                found.keep_copies()
            return Plan(gather=found)
        read = reader(loader.dataset)
        if read.slow and loader.num_workers:
            raise InPython(f"{read.python} takes so much time that it would hold up the loop, and workers run it next to the loop")
        if loader.num_workers:
            read.keep_copies()
        else:
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
    "data",
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
    "worker_info",
}
_PACKAGES = {"numpy", "random", "torch"}
_LIBRARIES = {"pl_worker_init_function": {"lightning", "pytorch_lightning"}, "seed_worker": {"transformers"}}


def _only_seeds(function: Any) -> bool:
    """Returns whether a worker_init_fn certainly only seeds random generators of its process, which compiled transforms do not use. Its parameters and the
    variables of enclosing functions then have plain values, and each name in its code refers to a module in _PACKAGES, to a function of one, or to a plain value.
    A method does not use its object."""
    called = function.func if type(function) is functools.partial else function
    wrapped = called.__func__ if type(called) is types.MethodType else called
    if type(wrapped) is not types.FunctionType:
        return False
    if _package_of(wrapped) in _LIBRARIES.get(wrapped.__name__, ()):
        return True
    code = wrapped.__code__
    given = [*(wrapped.__defaults__ or ()), *(wrapped.__kwdefaults__ or {}).values()]
    if function is not called:
        given += [*function.args, *function.keywords.values()]
    outer = [cell.cell_contents for cell in wrapped.__closure__ or ()]
    if any(type(value) not in PLAIN for value in given) or any(type(value) not in PLAIN and not _seeds(value) for value in outer):
        return False
    if any(hasattr(constant, "co_code") for constant in code.co_consts):
        return False
    if wrapped is not called and _uses_first_parameter(code):
        return False
    for step in dis.get_instructions(code):
        if step.opname.startswith(("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR", "DELETE_")):
            return False
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = global_of(wrapped, step.argval)
            if type(value) not in PLAIN and not _seeds(value):
                return False
        elif step.opname == "IMPORT_NAME":
            if step.argval.partition(".")[0] not in _PACKAGES:
                return False
        elif step.opcode in dis.hasname and step.argval not in _SEEDING:
            return False
    return True


def _uses_first_parameter(code: types.CodeType) -> bool:
    """Returns whether the code of a function may use its first argument. Also true if the function has no named parameter for it."""
    first = code.co_varnames[:1]
    if code.co_argcount == 0 or first[0] in code.co_cellvars:
        return True
    used = (step.argval for step in dis.get_instructions(code) if step.opcode in dis.haslocal)
    return any(first[0] in (names if isinstance(names, tuple) else (names,)) for names in used)


def _seeds(value: Any) -> bool:
    """Returns whether a value is a module in _PACKAGES, a function of one with a name in _SEEDING, or one of the builtins int and id."""
    if value is int or value is id:
        return True
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _PACKAGES
    return getattr(value, "__name__", None) in _SEEDING and _package_of(value) in _PACKAGES


def _package_of(function: Any) -> str:
    """Returns the name of the package in which a function was defined; "" if it cannot be found out. The function's __module__ does not always say it, because
    functools.wraps copies it."""
    function = getattr(function, "__func__", function)
    if type(function) is types.FunctionType:
        home = function.__globals__.get("__name__")
    else:
        home = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
    return str(home or "").partition(".")[0]
