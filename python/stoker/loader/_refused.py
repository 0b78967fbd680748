# SPDX-License-Identifier: Apache-2.0
"""Errors for uses of a Loader that only a torch DataLoader permits: copies, pickles, changed transforms, and attributes that programs set or frameworks read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stoker.errors import StateError


class OfTorch(NamedTuple):
    """What a Loader does with an argument of torch's DataLoader. effect: "used", "ignored", "refused", or "own" if Loader has this argument itself. why: says
    what Loader has in place of an argument that is ignored or refused."""

    effect: str
    why: str = ""


# The arguments of torch's DataLoader, except for those that decide which samples are in a batch. Arguments in LoaderArguments has those that are not "own".
OF_TORCH = {
    "dataset": OfTorch("used"),
    "multiprocessing_context": OfTorch("used"),
    "pin_memory": OfTorch("own"),
    "timeout": OfTorch("own"),
    "num_workers": OfTorch(
        "ignored", "Stoker works with threads, and num_threads says how many; python_workers runs the Python of a Dataset in processes"
    ),
    "persistent_workers": OfTorch("ignored", "there are no worker processes, or with python_workers they stay"),
    "prefetch_factor": OfTorch("ignored", "prefetch says how many batches are made ahead"),
    "worker_init_fn": OfTorch("ignored", "there are no worker processes"),
    "in_order": OfTorch("ignored", "batches always come in order"),
    "pin_memory_device": OfTorch("ignored", "device says where batches lie"),
    "generator": OfTorch("refused", "seed is what order and augmentation follow from"),
}
# Arguments that programs may set on a torch DataLoader that they did not make. They have no effect on one from as_dataloader().
OF_DATALOADERS = frozenset(OF_TORCH) - {"dataset"}
# Attributes of torch's DataLoader and of Loader that RobotLoader and Mixture do not have, besides `sampler` and `dataset`.
_OF_LOADERS = OF_DATALOADERS.union(
    ("batch_sampler", "collate_fn", "drop_last"), ("as_dataloader", "class_to_idx", "classes", "pipeline", "show")
)
# Attributes of data sets that hold transforms.
OF_DATASETS = frozenset(("transform", "transforms", "target_transform"))


def read_once(of: str, name: str) -> AttributeError:
    """Returns the error for an attribute that would have no effect, because the Loader reads its arguments when it is made. of: names the object."""
    return AttributeError(
        f"{of}: {name!r} cannot be set: it is read when the Loader is made. Make another Loader (its load_state_dict continues from this one's state_dict)"
    )


def advice(other: str, **own: str) -> dict[str, str]:
    """Returns a dict from the names of missing attributes to what to use in place of them. own: advice for some names; other: for all other names."""
    return {**dict.fromkeys(_OF_LOADERS, other), **own}


def no_attribute(of: Any, name: str, instead: Mapping[str, str]) -> Any:
    """Raises the AttributeError of a class's __getattr__: with advice if `instead` has the name, or else Python's own, also that of a property that failed."""
    if name not in instead:
        return object.__getattribute__(of, name)
    raise AttributeError(f"{type(of).__name__!r} object has no attribute {name!r}: {instead[name]}", name=name, obj=of)


def drops_state(epoch: int, loaded: int) -> StateError:
    """Returns the error for set_epoch() after a state was loaded, whose position would be lost. epoch: the argument of set_epoch(). loaded: the epoch of the
    state."""
    return StateError(
        f"set_epoch({epoch}): a state in the middle of epoch {loaded} was loaded, and its position would be lost: begin with loader.epoch. Lightning's "
        "Trainer.fit() takes the state with ckpt_path=; Fabric counts from epoch 0 after setup_dataloaders(), which a Loader can do without"
    )


def not_copied(what: str, owner: str = "it") -> TypeError:
    """Returns the error for pickling or copying an object that owns threads and memory. owner: what owns them, if that is not the object itself."""
    save = "state_dict()" if owner == "it" else "state_dict() of the Loader"
    return TypeError(
        f"{what} cannot be pickled or copied: {owner} owns threads and memory. Make it in the process that uses it; {save} is what to save"
    )


def changed(what: str, instead: str) -> StateError:
    """Returns the error for an object that was changed after the Loader had read it. what: names the object. instead: a second way out."""
    return StateError(
        f"{what} was changed after the Loader had read it, which happens once, when the Loader is made: make another Loader (its load_state_dict continues "
        f"from this one's state_dict), {instead}"
    )
