# SPDX-License-Identifier: Apache-2.0
"""Messages for states that an object cannot load: they say whose state was given, and whose is needed."""

from __future__ import annotations

from typing import Any

from stoker.errors import StateError

# The entry that marks a state of Stoker, and the object whose state it is. A state of a Pipeline is JSON text.
KINDS = {
    "stoker_loader": "a Loader",
    "stoker_mixture": "a mixture (Loader.mix)",
    "stoker_robots": "Loader.from_lerobot",
    "stoker_dataloader": "a stoker.DataLoader",
}
PIPELINE = "a Pipeline"

# Entries by which the states of other libraries are known, and what has such a state.
_OTHERS = (
    (("pytorch-lightning_version",), "a whole checkpoint of Lightning, which holds the states of several objects"),
    (("_snapshot", "_steps_since_snapshot"), "a state of torchdata's StatefulDataLoader"),
    (("_it_state",), "a state of torchdata.nodes"),
    (("_iterator_finished",), "a state of torchdata's StatefulDataLoader"),
    (("_sampler_iter_yielded",), "a state of torchdata's StatefulDataLoader"),
    (("state", "param_groups"), "a state of an optimizer of torch"),
    (("examples_iterable",), "a state of an IterableDataset of datasets"),
    (("consumed", "fingerprint"), f"a state of {PIPELINE}, as a dict"),
)
_SHOWN = 4  # the most entries of a dict that a message names


def refused(given: Any, wanted: str, version: int | None = None) -> StateError:
    """Returns the error for a state that is not that of `wanted`, a value of KINDS or PIPELINE. version: of the states that can be loaded."""
    mark = next((mark for mark, kind in KINDS.items() if kind == wanted), None)
    if isinstance(given, dict) and mark in given:
        return StateError(
            f"this is a state of {wanted} in version {given[mark]!r:.100}, and this Stoker reads version {version}: use the Stoker that saved it"
        )
    needed = "what Pipeline.checkpoint() returned" if mark is None else "what its state_dict() returned"
    return StateError(f"this is no state of {wanted}, but {_described(given, wanted)}: give {needed}")


def _described(given: Any, wanted: str) -> str:
    if isinstance(given, (bytes, bytearray)):
        text = given.lstrip()
        return f"JSON text, like the state of {PIPELINE}" if text.startswith(b"{") else "bytes, like a checkpoint of DALI's pipelines"
    if isinstance(given, str):
        return "text" if not given.lstrip().startswith("{") else f"JSON text, like the state of {PIPELINE}"
    if isinstance(given, (list, tuple)):
        return f"a {type(given).__name__} of {len(given)}" + ("" if len(given) != 1 else f", whose entry is {_described(given[0], wanted)}")
    if not isinstance(given, dict):
        return "None" if given is None else f"a value of type {type(given).__name__}"
    for mark, kind in KINDS.items():
        if mark in given:
            return f"one of {kind}"
    for names, what in _OTHERS:
        if all(name in given for name in names):
            return what
    if not given:
        return "an empty dict"
    inner = next((name for name, value in given.items() if _is_state(value, wanted)), None)
    if inner is not None:
        return f"a dict whose entry {inner!r:.100} is one"
    shown = ", ".join(f"{name!r:.40}" for name in list(given)[:_SHOWN]) + (", ..." if len(given) > _SHOWN else "")
    return f"a dict with the entries {shown}"


def _is_state(value: Any, wanted: str) -> bool:
    return isinstance(value, dict) and any(kind == wanted and mark in value for mark, kind in KINDS.items())
