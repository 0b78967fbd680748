# SPDX-License-Identifier: Apache-2.0
"""The source of a Loader over a table, and the order of shuffle="groups", which mixes the rows of a few row groups."""

from __future__ import annotations

import json
import threading
import weakref
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker import _numbers
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _targets
from stoker.loader._kinds import Kind
from stoker.loader._random import mix
from stoker.loader._saved import Saved
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.batches._finish import Finish, by_value, padded
from stoker.loader.sources._dataset import DatasetSource
from stoker.loader.sources._fetch import Item
from stoker.loader.sources._table import Table
from stoker.loader.sources._table_columns import filling_number

if TYPE_CHECKING:
    from concurrent.futures import Future

_AHEAD_IN_ORDER = 2  # number of groups to read ahead if rows are read in order


def permutation(count: int, *key: int) -> Any:
    """Returns the numbers 0 .. count - 1 in an order that depends only on the key, not on the machine or the version of NumPy."""
    import numpy as np

    return np.argsort(np.random.Philox(key=mix(*key)).random_raw(count), kind="stable")


def _is_running(future: Future[Any] | None) -> bool:
    return future is not None and not future.done()


def _own(part: Any) -> Any:
    """Returns a copy of a part of a sample if it is a view of other memory, else the part."""
    if isinstance(part, memoryview):
        return bytes(part)
    return part.copy() if getattr(part, "base", None) is not None else part


@dataclass(frozen=True)
class Deal:
    """How an epoch's rows are divided among ranks. lanes: number of ranks. block: batch size of a rank."""

    lanes: int
    block: int


class GroupOrder:
    """The order of shuffle="groups": a function from positions to rows. The groups are permuted and divided into windows of `window` groups, and the rows of
    each window are shuffled. This sequence is cut into one stretch for each rank, so that a rank reads only the groups of its stretch. Rows that do not fill a
    step come last."""

    def __init__(self, table: Table, window: int, deal: Deal, seed: int, epoch: int) -> None:
        self.table, self.seed, self.epoch = table, seed, epoch
        order = permutation(len(table.rows), seed, epoch, 0).tolist()
        self.windows = [order[i : i + window] for i in range(0, len(order), window)]
        self.starts = [0]
        for groups in self.windows:
            self.starts.append(self.starts[-1] + sum(table.rows[g] for g in groups))
        self.size, self.deal = self.starts[-1], deal
        self.steps = self.size // (deal.lanes * deal.block)
        self._shuffled: OrderedDict[int, Any] = OrderedDict()
        self._groups_asked_for = 0, 0  # the range of the sequence whose groups ahead() has returned
        self._window_groups: tuple[int, frozenset[int]] = (-1, frozenset())  # a window, and the cached result of window_groups() for it
        self._lock = threading.Lock()  # guards _shuffled: one thread makes batches, and another asks for the samples of a batch

    def _sequence_index(self, position: int) -> int:
        """Converts a position of the epoch to an index of the sequence. The two are equal for the last rows, which do not fill a step."""
        lanes, block = self.deal.lanes, self.deal.block
        if position >= self.steps * lanes * block:
            return position
        step, rest = divmod(position, lanes * block)
        lane, at = divmod(rest, block)
        return lane * self.steps * block + step * block + at

    def __call__(self, position: int) -> int:
        place = self._sequence_index(position)
        window = bisect_right(self.starts, place) - 1
        return int(self._rows(window)[place - self.starts[window]])

    def _rows(self, window: int) -> Any:
        with self._lock:
            found = self._shuffled.get(window)
            if found is None:
                import numpy as np

                rows = np.concatenate([np.arange(self.table.starts[g], self.table.starts[g + 1]) for g in self.windows[window]])
                found = self._shuffled[window] = rows[permutation(len(rows), self.seed, self.epoch, 1 + window)]
                if len(self._shuffled) > 3:
                    self._shuffled.popitem(False)
        return found

    def ahead(self, position: int) -> list[int]:
        """Returns the groups that are needed from a position on, first needed first: those of the position's window and of the next one, without groups that
        earlier calls returned."""
        place, stretch = self._sequence_index(min(position, self.size - 1)), self.steps * self.deal.block
        lane = min(place // stretch, self.deal.lanes - 1) if stretch else 0
        last = (lane + 1) * stretch if lane + 1 < self.deal.lanes else self.size
        following = min(bisect_right(self.starts, place) + 1, len(self.starts) - 1)
        end = min(max(last, place + 1), self.starts[following])
        if not self._groups_asked_for[0] <= place <= self._groups_asked_for[1]:
            self._groups_asked_for = place, place
        found: list[int] = []
        while self._groups_asked_for[1] < end:
            window = bisect_right(self.starts, self._groups_asked_for[1]) - 1
            until = min(end, self.starts[window + 1])
            found += self._groups(window, self._groups_asked_for[1], until)
            self._groups_asked_for = self._groups_asked_for[0], until
        return found

    def window_groups(self, position: int) -> frozenset[int]:
        """Returns the groups of the window that contains a position, and of the next window."""
        window = bisect_right(self.starts, self._sequence_index(min(position, self.size - 1))) - 1
        if self._window_groups[0] != window:
            self._window_groups = window, frozenset(g for groups in self.windows[window : window + 2] for g in groups)
        return self._window_groups[1]

    def _groups(self, window: int, begin: int, end: int) -> list[int]:
        """Returns the groups to which rows begin .. end - 1 of the sequence belong, in the order in which they are first needed. All these rows are in the
        given window."""
        import numpy as np

        rows = self._rows(window)[begin - self.starts[window] : end - self.starts[window]]
        groups = np.searchsorted(self.table.starts, rows, side="right") - 1
        first = np.unique(groups, return_index=True)[1]
        found: list[int] = groups[np.sort(first)].tolist()
        return found


class TableSource(DatasetSource):
    """Reads the rows of a table. The table's threads read row groups ahead, and the table's many(ids) takes rows from groups in memory."""

    shuffles = "groups"
    many = True
    unchanging = True
    typed = True
    by_sample = False  # fetching a row early would read its whole row group

    def __init__(self, table: Table, arguments: DatasetArguments) -> None:
        if arguments.python_workers:
            raise InvalidArgumentError("Loader: python_workers is for the Python of a Dataset; rows of a table are read without any")
        table.check_fields(arguments.names or (), arguments.kinds or {}, arguments.ragged)
        self.table = table
        # For each batch that is being made: its futures, and its groups. The references are weak, because a future holds the rows that were fetched.
        self._unmade: list[tuple[list[weakref.ref[Future[Any]]], set[int]]] = []
        self._groups: tuple[int, Deal] | None = None  # window and deal of shuffle="groups"; None for other orders
        # For the epoch that a loaded state continues: its number, and the window and deal with which the saved run began it, so that its order stays the same.
        self._kept: tuple[int, int, Deal] | None = None
        super().__init__(table, arguments)

    def column_names(self) -> Collection[str]:
        return self.table.names

    def check(self, spec: Spec, own_order: bool) -> None:
        if spec.by_groups and own_order:
            raise InvalidArgumentError('Loader: shuffle="groups" and sampler exclude each other: the sampler makes the order')

    def settle(self, spec: Spec, own_order: bool, may_list: bool) -> None:
        self.table.limit = _numbers.memory_limit(spec.settings.get("memory_limit"))
        if spec.by_groups:
            self._groups = self.table.window(), Deal(spec.shard.world, spec.batch)
        elif (spec.shuffle or own_order) and len(self.table.rows) > 1 and self.table.bytes() > self.table.memory:
            notice(
                f"{self.table}: shuffle=True reads a whole row group for nearly every row, because the table is larger than the {self.table.memory >> 20} MiB "
                'that are kept in memory: shuffle="groups" mixes the rows of some groups at a time and reads each group once'
            )

    def durations(self) -> Callable[[Spec], list[float]] | None:
        return None if self.arguments.sound is None else self._read_durations

    def _read_durations(self, spec: Spec) -> list[float]:
        from stoker.loader.sources import _table_sounds

        duration = self.arguments.sound.audio.duration
        if duration is not None:
            raise InvalidArgumentError(f"Loader: with duration={duration:g} all sounds are equally long: leave bucket_by or duration out")
        return _table_sounds.durations(self.table, spec.bad_may_pass)

    # ---- order ----

    def _make_sequence(self, epoch: int, spec: Spec, indices: array[int] | None) -> tuple[Callable[[int], int], int]:
        if self._groups is None or indices is not None:
            return super()._make_sequence(epoch, spec, indices)
        window, deal = self._groups
        if self._kept is not None and self._kept[0] == epoch:
            _, window, deal = self._kept
        return GroupOrder(self.table, window, deal, spec.seed, epoch), self.size or 0

    def begin(self, epoch: int, consumed: int, base: int) -> None:
        self.table.open()
        super().begin(epoch, consumed, base)

    def _submit(self, items: list[Item]) -> list[Future[Any]]:
        if not items:
            return super()._submit(items)
        needed, later, stay = self._needed(items)
        if stay is not None:  # batches that are still being made need their groups, too
            self._unmade = [(futures, groups) for futures, groups in self._unmade if any(_is_running(f()) for f in futures)]
            self.table.pin(stay.union(needed, later, *(groups for _, groups in self._unmade)))
        self.table.want(needed, later)
        futures = super()._submit(items)
        if stay is not None:
            self._unmade.append(([weakref.ref(f) for f in futures], {self.table.group_of(i) for i, _ in items}))
        return futures

    def _needed(self, items: Sequence[Item]) -> tuple[list[int], list[int], frozenset[int] | None]:
        """Returns three things: the groups of these samples; the groups to request ahead, first needed first; and the groups that must stay in memory, or None
        for an order in which any group may be next."""
        needed = list(dict.fromkeys(self.table.group_of(i) for i, _ in items))
        sequence = next(
            (order for order, _ in self._orders.values() if isinstance(order, GroupOrder) and order.epoch == items[0][1][1]), None
        )
        if sequence is not None:
            return needed, sequence.ahead(items[0][1][2]), sequence.window_groups(items[0][1][2])
        if self._in_order:
            return needed, list(range(needed[-1] + 1, min(len(self.table.rows), needed[-1] + 1 + _AHEAD_IN_ORDER))), frozenset()
        return needed, [], None

    def _first_of(self, items: Iterator[Item], earlier: Iterator[Item], spec: Spec) -> tuple[Any, ...]:
        """Does what the base class does, and copies the example: it is kept as long as this source, and a view of a row keeps the row's whole group."""
        self._example = tuple(_own(part) for part in super()._first_of(items, earlier, spec))
        return self._example

    _in_order = False

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> Any:
        self._in_order = not spec.shuffle and indices is None
        return super().nodes(spec, indices, per_rank)

    def _finish(self, example: tuple[Any, ...], kinds: list[Kind]) -> dict[int, Finish]:
        finish = super()._finish(example, kinds)
        names = dict(enumerate(self.samples_of.names_of_parts(), 1))
        if self.table.plain:
            names[0] = self.table.image
        for k, name in names.items():
            if name in self.table.objects:
                finish[k] = by_value(lambda values: [json.loads(text) for text in _targets.texts(values)])
            elif self.arguments.pad is not None and name in self.table.lists and k not in finish:
                if example[k].ndim != 1:
                    raise InvalidArgumentError(
                        f"Loader: pad makes one tensor of lists of different lengths, and the column {name!r} holds lists of lists: name its kind list "
                        "in fields, "
                        "and pad it in a collate_fn"
                    )
                finish[k] = padded(self._pad_of(name))
        return finish

    def _pad_of(self, name: str) -> float:
        """Returns the number that pads the lists of a column. Raises InvalidArgumentError if the column's type cannot represent it."""
        given, dtype = self.arguments.pad, next(c.dtype for c in self.table.columns if c.name == name)
        assert given is not None
        if filling_number(given, dtype) is None:
            raise InvalidArgumentError(
                f"Loader: pad is {given!r}, and the column {name!r} holds lists of {dtype}, which cannot hold it: give another number, or name the column's "
                "kind list in fields, and pad it in a collate_fn"
            )
        return given

    # ---- state ----

    def facts(self, spec: Spec) -> dict[str, Any]:
        facts = super().facts(spec)
        if self._groups is None:
            return facts
        window, deal = self._groups
        kept = self._kept and [self._kept[0], self._kept[1], self._kept[2].lanes, self._kept[2].block]
        return {**facts, "groups": {"table": self.table.digest(), "now": [window, deal.lanes, deal.block], "kept": kept}}

    def _make_digest(self) -> str:
        return self.table.digest()

    def _is_digest(self, saved: str) -> bool:
        return saved in (self._digest(), self.table.digest(old=True))

    def restore(self, state: Saved, spec: Spec) -> None:
        super().restore(state, spec)
        facts = state.dataset
        assert facts is not None
        if (facts.groups is None) != (self._groups is None):
            was = 'shuffle="groups"' if facts.groups else "another order"
            raise StateError(f"the state is of a Loader with {was}; this one has another: give the shuffle of the run that was saved")
        if facts.groups is not None and not self._is_digest(facts.groups["table"]):
            raise StateError("the state is of a table with other files or row groups: some rows would come twice, and others never")
        self._kept = None
        if facts.groups is not None and state.pipeline is not None and state.pipeline["consumed"]:
            kept = facts.groups["kept"]
            window, lanes, block = kept[1:] if kept is not None and kept[0] == state.epoch else facts.groups["now"]
            self._kept = (state.epoch, window, Deal(lanes, block))

    def close(self) -> None:
        super().close()
        self.table.close()

    def __repr__(self) -> str:
        groups = f"{len(self.table.rows)} row groups"
        mixed = f", {self._groups[0]} of them mixed at a time" if self._groups else ""
        return f"{self.table}: {groups}{mixed}"
