# SPDX-License-Identifier: Apache-2.0
"""Makes the pipelines of a Loader's epochs, takes batches from them, and saves and restores the Loader's position."""

from __future__ import annotations

import copy
import os
from array import array
from dataclasses import dataclass
from typing import Any

from stoker import _core, _same_data
from stoker._ranks import check_agreement, together
from stoker._session import Session
from stoker._types import dtype_name
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError, StokerError
from stoker.loader._one_thread import OneThread
from stoker.loader._order import BatchOrder, Further, Order
from stoker.loader._random import mix
from stoker.loader._saved import OF_ORDER, Ids, Saved, digest, other_ranks
from stoker.loader._spec import Spec
from stoker.loader._traces import TraceFile
from stoker.loader._waiting import WaitMeter
from stoker.loader.batches._pad import check_holds
from stoker.loader.sources._source import Source
from stoker.pipeline import Pipeline


@dataclass
class _Place:
    """A position of a Run without a pipeline. The fields are the Run's attributes of the same names; `rest` is an attribute of its order."""

    epoch: int
    resumed: dict[str, Any] | None
    ids: Ids | None
    indices: array[int] | None
    drawn: int
    count: int | None
    batch: int
    before: int
    rest: Any
    loaded_inside: bool


class Run:
    """Delivers the batches of a Loader's epochs. An epoch has its own pipeline if the user gives the order of samples, or if the source reads only one epoch
    from front to back; else one pipeline delivers all epochs."""

    def __init__(self, source: Source, spec: Spec, order: Order | None) -> None:
        self.source, self.spec, self.order = source, spec, order
        self.one_thread = OneThread()
        trace = spec.settings.get("trace")
        self._trace = TraceFile(None if trace is None else os.fsdecode(trace))
        self.pipe: Pipeline | None = None
        self.session: Session | None = None  # the session of `pipe`
        self._made: Pipeline | None = None  # the pipeline that is being built, if any
        self.epoch = 0
        self.inside = False  # whether an epoch has begun and has not ended
        self._beginning = False  # whether begin() runs, whose caller has just checked what was read of the data set
        self._again: int | None = None  # the epoch that the next iteration begins again, as set_epoch() asked; else None
        self.changed = False  # whether a user's function may have changed the batch that was put back
        self.base = 0  # number of the Loader's epoch that is epoch 0 for `pipe`
        self.resumed: dict[str, Any] | None = None  # state from which the next pipeline continues this epoch; None: from its first sample
        self.loaded: dict[str, Any] | None = None  # the value of `resumed` that load() has set
        self.data: dict[str, Any] | None = None  # facts about the data, for states that are saved while there is no pipeline
        self.unchecked: dict[str, Any] | None = None  # facts about the data in a loaded state; the next pipeline compares them with its own
        # Ids in the user's order, of epoch number `drawn` or of a stretch of it (see in_stretches); None if they are not drawn yet.
        self.indices: array[int] | None = None
        self.drawn = -1  # number of the epoch whose ids are drawn; -1: none
        self.ids: Ids | None = None  # summary of this epoch's ids; None until a state is loaded or saved in this epoch
        self.count: int | None = None  # number of ids in `indices`
        self.before = 0  # number of batches of this epoch that earlier stretches (see in_stretches) delivered
        self._first = 0  # the value of `step` with which this iteration began
        self._kinds_of_outputs: list[str | None] = []  # the kind of each output that is padded; None for the others
        self.descs: list[tuple[int, list[int], str]] = []  # element type, shape and layout of each output of the pipeline
        self.total: int | None = None  # number of samples that counted() has found by reading tars; else None
        self.bad: list[StokerError] = []  # errors of the last bad samples of pipelines before this one
        self.bad_count = 0  # number of all bad samples of pipelines before this one
        self.narrowed = 0  # number of images rounded from 16 bits a channel to 8, as of the end of the last epoch
        self.watch = WaitMeter(f"rank {spec.shard.rank} of {spec.shard.world}: " if spec.shard.world > 1 else "")

    # ---- making pipelines ----

    def _indices(self) -> array[int] | None:
        """Returns the user's order of this epoch, or None if the user gave none. Calls the user's sampler only if the epoch's order is not known yet."""
        if self._between_stretches:
            self._draw_stretch()
        if self.order is not None and self.drawn != self.epoch:
            together = self.spec.batch * (1 if self.order.per_rank else self.spec.shard.world)
            self.order.most = together * max(1, Order.most // together)  # a stretch of ids holds whole batches
            self.indices, self.drawn = self.order.indices(self.epoch), self.epoch
            self.count = len(self.indices)
            if isinstance(self.order, BatchOrder):
                self.spec.batch = self.order.largest
        return self.indices

    def _check_ids(self) -> None:
        """Raises StateError if the user's order differs from that of the saved run: some samples would be delivered twice and others never."""
        if self.order is not None and self.resumed is not None and self.ids is not None and self.ids.differ(self._drawn_ids()):
            self._refuse_other_ranks(self.ids)
            raise StateError(
                f"{self.order.name} gives epoch {self.epoch} other ids than in the run that was saved, so that some samples would come twice and others never: "
                f"{self.order.repeated}"
            )

    def _refuse_other_ranks(self, ids: Ids) -> None:
        """Raises StateError if these ids of the saved run were divided among another number of ranks."""
        ranks = self.spec.shard.world if self.per_rank else 1
        if ids.ranks != ranks:
            raise other_ranks(
                ids.ranks, ranks, "save at the end of an epoch, or give a function of the epoch that returns the ids of all ranks"
            )

    def _drawn_ids(self) -> Ids:
        return Ids.drawn(self._indices() or array("q"), self.spec.shard if self.per_rank else None)

    def ready(self) -> Pipeline:
        """Returns the pipeline of this epoch, and builds it if needed. Any thread may call this."""
        pipe = self.pipe
        if pipe is not None and self.session is not None:
            return pipe
        if self.one_thread.is_inside():
            return self._ready()
        with self.one_thread.visit("a call that needs the pipeline"):
            return self._ready()

    def _ready(self) -> Pipeline:
        if self.pipe is None:
            self.pipe = self._make()
            self.session = self.pipe._started()
            self.session.holds = True
            self._trace.made(self.pipe)
            self.source.started(self.session)
            self._notice_ranks_that_repeat()
            self._restore(self.session)
            self.descs = [(dtype, shape, layout) for dtype, _, shape, layout in self.session.outputs()]
            self._check_padding()
        return self.pipe

    def _check_padding(self) -> None:
        """Raises InvalidArgumentError if an output whose type is known cannot represent the value with which it is padded. Masks of a Dataset are checked by
        their source instead."""
        for (dtype, _, _), kind in zip(self.descs, self._kinds_of_outputs, strict=False):
            if kind is not None and dtype >= 0 and self.spec.pad is not None:
                try:
                    check_holds(dtype_name(dtype), kind, self.spec.pad[kind])
                except InvalidArgumentError:
                    self._drop()
                    raise

    def _notice_ranks_that_repeat(self) -> None:
        """Prints a notice if the last step of an epoch has samples for only some of the ranks, as is possible with last_batch="keep". The other ranks repeat a
        sample: with one step less, they would end while the ranks that have samples still wait for them."""
        assert self.pipe is not None
        assert self.session is not None
        keeps, ranks, size = self.source.division(self.session.meta(), self.spec, self.per_rank, self.samples)
        batch = self.pipe.batch_size
        left = size % (batch * ranks) if keeps and size > 0 else 0
        if ranks > 1 and 0 < left <= batch * (ranks - 1):
            notice(
                f"no samples are left for the last batch of an epoch on {ranks - -(-left // batch)} of {ranks} ranks ({size} samples in batches of {batch} for "
                'each rank): they repeat one sample, which the field `valid` marks if fields= names it; last_batch="pad" fills all batches and has that field, '
                '"drop" leaves the step out on all ranks'
            )

    def _make(self) -> Pipeline:
        if self.inside and not self._beginning:
            self.spec.check_taken()
        indices = self._indices()
        self._check_ids()
        per_rank = self.per_rank
        if per_rank and self.order is not None:
            length = (self.count or 0) // self.spec.batch if self.spec.batches else self.count
            check_agreement(f"the length of their samplers in epoch {self.epoch}", {"length": length}, self.spec.shard)
        own_epochs = self.order is not None
        rank = self.spec.shard.rank if per_rank else 0  # each rank counts its own positions, so ranks need different seeds
        seed = mix(self.spec.seed, self.epoch if own_epochs else 0, rank) if own_epochs or rank else self.spec.seed
        seed = mix(seed, self.before) if self.before else seed
        self.base = self.epoch if own_epochs else 0
        self.source.begin(self.epoch, int((self.resumed or {}).get("consumed", 0)), self.base)
        return self.source.built(self.order, lambda ordered: self._built(seed, indices if ordered else None))

    def _built(self, seed: int, indices: array[int] | None) -> Pipeline:
        pipe = Pipeline(self.spec.batch, seed=seed, enable_conditionals=True, **self.source.settings(self.spec))
        self.spec.padded_kinds.clear()
        with pipe:
            nodes = self.source.nodes(self.spec, indices, self.per_rank)
            pipe.set_outputs(*nodes, *([] if self.spec.size is None else [self.spec.size]))
        pipe._first_epoch, pipe._epoch_by_epoch = self.base, self.spec.in_python
        self._kinds_of_outputs = [next((kind for made, kind in self.spec.padded_kinds if made is node), None) for node in nodes]
        self._made = pipe
        try:
            pipe.build()
        finally:
            self._made = None
        pipe.keep_bad_samples(self.bad, self.bad_count)
        return pipe

    def _restore(self, session: Session) -> None:
        state = self.resumed
        if state is None and (self.epoch > self.base or self.unchecked is not None):
            now = session.state()
            state = {**now, **self._saved_data(now), "epoch": self.epoch - self.base}
        if state is not None:
            session.restore(self.source.continued(state, session))
        self.unchecked = None
        if self.resumed is not None and self.order is None:
            epoch = int(session.state()["epoch"])
            if epoch != self.epoch:  # the library skipped the rest of the saved epoch
                self.epoch, self.resumed = epoch, None

    def _saved_data(self, now: dict[str, Any]) -> dict[str, Any]:
        """Returns the facts about the data from the loaded state that the library compares with its own facts, `now`. Raises StateError if the sizes differ."""
        saved = self.unchecked or {}
        if bool(saved.get("streamed")) != bool(now.get("streamed")):  # digests of tars with and without an index cannot be compared
            was = saved.get("size")
            if was is not None and now.get("size") is not None and was != now["size"] and self.order is None:
                raise StateError(f"{_same_data.differ(was, now['size'])}: {_same_data.WAY_OUT}")
            return {}
        return {name: value for name, value in saved.items() if name not in (OF_ORDER if self.order is not None else ())}

    def _keep_data(self) -> None:
        """Stores the facts about the data in self.data. A state that is saved between epochs, without a pipeline, needs them."""
        if self.session is not None:
            self.data = self.source.reader_facts(self.session, self.total)

    def agree(self) -> None:
        """Raises an error on all ranks if they were started with different files, orders, seeds or batch sizes. Does nothing if torch has no process group."""
        spec, order = self.spec, self.order
        if together(spec.shard) is None:
            return
        facts: dict[str, Any] = {"ranks": spec.shard.world, "batch size": spec.batch, "last batch": spec.last_batch, "seed": spec.seed}
        facts["order"] = "shuffled" if spec.shuffle else "in order" if order is None else type(order).__name__
        meta = self.meta()
        facts |= {"files (digest)": f"{meta['fingerprint']:016x}"} if "fingerprint" in meta else {}
        facts["samples"] = meta.get("epoch_size")
        if order is not None and order.per_rank:
            facts["length of the sampler"] = self._number_of_ids(order)
        elif order is not None:
            facts["ids of the sampler (digest)"] = digest(self._indices() or array("q"))
        check_agreement("what they read", facts, spec.shard)

    # ---- facts about the data ----

    def meta(self) -> dict[str, Any]:
        """Returns the metadata of the reader, or of a Dataset; {} without both."""
        return self.source.meta(self.ready)

    def samples(self) -> int | None:
        """Returns the number of samples in an epoch, over all ranks, or of this rank if each rank has its own sequence; None if the number is not known."""
        if self.order is not None:
            if self.order.length() is None and self.count is None:
                self._indices()
            if self.in_stretches:
                return None
            return self._number_of_ids(self.order)
        size = self.meta().get("epoch_size")
        return self.total if size is None or size < 0 else int(size)

    def _number_of_ids(self, order: Order) -> int | None:
        """Returns the number of ids in this epoch. Before they are drawn, trusts the length that the sampler reports."""
        return self.count if self.drawn == self.epoch else order.length() or self.count

    def counted(self) -> int | None:
        """Returns the number of samples in an epoch. If tars are read from front to back and were not counted yet, reads all of them, which may take minutes.
        Returns None for other sources of unknown length."""
        if self.source.one_epoch and self.samples() is None:
            if self.step or self.resumed is not None:
                self.total = self.source.count(self.spec)
            else:
                self._drop()
                self.source.index()
        return self.samples()

    def data_size(self) -> int | None:
        """Returns the number of samples in the data set, which may differ from the number in an epoch; None if it is not known. May read all tars, as counted()
        does."""
        size = self.meta().get("samples")
        return self.counted() if size is None or size < 0 else int(size)

    # ---- batches ----

    def begin(self) -> None:
        """Begins an iteration over the rest of a restored epoch, or over a new epoch. If the loop left an epoch early, ends that epoch first (see _leave), or
        goes back to its start if repeat() was called."""
        again, self._again = self._again, None
        if again is not None:
            self.go_to(again)
        elif self._has_begun:
            self._leave()
        if not self.inside and self.resumed is None and self.source.resized():
            self._drop()
        if self._between_stretches:
            self._draw_stretch()
        if self.pipe is None and self.source.makes_order:
            self._pass_ended_epoch()
        self.source.let_begin(self.epoch)
        self.inside, self._first, self._beginning = True, self.step, True  # before ready(), which may raise an error
        try:
            self.ready()
        finally:
            self._beginning = False
        self._first = self.step  # again, because ready() passes a restored epoch that has ended

    @property
    def _has_begun(self) -> bool:
        """Returns whether this iteration has given a batch. The next iteration then begins the next epoch, unless repeat() is called."""
        return self.inside and self.step > self._first

    @property
    def loaded_inside(self) -> bool:
        """Returns whether a state in the middle of an epoch was loaded, and no batch has been taken since. A state that was saved after the last batch of an epoch
        is at the start of the next one."""
        loaded = self.resumed if self.resumed is self.loaded else None
        return loaded is not None and loaded["consumed"] > 0 and not self._has_begun

    def repeat(self) -> None:
        """Lets the next iteration begin this epoch again if the current one has begun it. The current iteration continues, because trainers call set_epoch()
        also after they have taken the first batch. If it reaches the end of the epoch, the next iteration begins the next epoch."""
        if self._again != self.epoch:
            self._again = self.epoch if self._has_begun else None

    def _leave_epoch(self) -> None:
        """Lets the next iteration begin the next epoch, also if this one was resumed or closed, and has given no batch since then."""
        if self.source.owns_pipeline:
            self.go_to(self.epoch + 1)
        else:
            self.ready()._started()
            self._leave()

    def _leave(self) -> None:
        """Goes to the next epoch. If the user feeds the pipeline with feed_input, stays in an epoch that has not ended."""
        drops = self._own_pipelines or self.source.makes_order
        if not drops and self.session is not None and not self.session.can_skip_epoch:
            notice(
                "this epoch has not ended: the Loader continues it, because feed_input feeds its Pipeline, and to leave the epoch would drop batches that were "
                "fed"
            )
            return
        self.changed = False
        self.watch.begun = None
        if drops:
            self._keep_data()
            self._drop()
        else:
            assert self.session is not None
            self.session.skip_epoch()
        self._next_epoch()

    @property
    def _own_pipelines(self) -> bool:
        return self.order is not None or self.source.one_epoch

    def _next_epoch(self) -> None:
        self._leave_stretches()
        # No call follows, at which an interrupt could come.
        self.source.one_epoch = False  # tars are read from front to back in the first epoch at most
        self.epoch += 1
        self.resumed = self.ids = self._again = None
        self.inside = False

    @property
    def in_stretches(self) -> bool:
        """Returns whether this epoch's ids are drawn in parts ("stretches"), as those of a long sampler without a length."""
        return self.order is not None and (self.order.rest is not None or self.before > 0)

    def _leave_stretches(self) -> None:
        """Forgets the ids of this epoch if they are only one stretch of it, since a restarted epoch begins with its first stretch."""
        if self.order is not None and self.in_stretches:
            self.drawn, self.count, self.before, self.order.rest = -1, None, 0, None
            self.source.forget_orders()

    @property
    def _between_stretches(self) -> bool:
        """Returns whether a stretch of this epoch's ids has ended, and the next ids are not drawn yet."""
        return self.order is not None and self.drawn == self.epoch and self.indices is None

    def _further_ids(self) -> Further | None:
        """Draws the ids of the next stretch. Returns None if the epoch has ended: the sampler has too few further ids for a step."""
        assert self.order is not None
        further = self.order.more() if self.order.rest is not None else None
        if further is None or not further[0] or not self.spec.has_step(len(further[0]), 0, self.per_rank):
            self.order.rest = None
            return None
        return further

    def _draw_stretch(self) -> bool:
        """Draws the ids of the next stretch after the last one has ended. Returns False if the epoch has ended too, and then goes to the next epoch."""
        further = self._further_ids()
        if further is None:
            self._next_epoch()
            return False
        count = len(further[0])
        # No call follows, at which an interrupt could come.
        assert self.order is not None
        (self.indices, self.order.rest), self.count = further, count
        return True

    def _drop(self) -> None:
        if self.pipe is not None and self.source.owns_pipeline:
            if self.session is not None and self.session._pid == os.getpid():
                self.bad, self.bad_count = self.pipe._counted_bad_samples()
                self._trace.close()
            pipe, self.pipe, self.session = self.pipe, None, None  # first, so that an interrupt leaves no closed pipeline here
            pipe.close()
        self.pipe = self.session = None
        self.changed = False
        self.source.close()

    def take(self) -> _core.Batch | None:
        """Returns the next batch that has samples; None at the end of the epoch. Skips batches whose samples are all bad, but counts them as steps. Raises
        CorruptError at the end of an epoch whose batches were all skipped, unless the epoch was restored in its middle: earlier batches may have been good."""
        if self.changed:
            self._replace_changed()
        restored = self.resumed is not None
        batch, left_out = self._take(), 0
        while batch is not None and not len(batch):
            assert self.session is not None
            session, left_out = self.session, left_out + 1
            session.check_left_out(batch, max(self.spec.shard.world, int(session.meta().get("number_of_shards", 1))))
            epoch, steps = self.epoch, self.step
            batch = self._take()
            if batch is None and left_out == steps and not restored:
                session.refuse_unread(epoch, self.bad if self.session is not session else None)
        return batch

    def _take(self) -> _core.Batch | None:
        if self._between_stretches and not self._draw_stretch():
            return None
        session = self.session or self.ready()._started()
        if session.step == 1:
            self.watch.first_step_done(self.ready())
        stretch, further = self.order is not None and self.order.rest is not None, None
        try:
            if not session.last and not session.core.ended:
                session.check_fed()
            batch = session.next()
            if batch is not None:
                return batch
            further = self._further_ids() if stretch else None
            stretch = further is not None
            if not stretch:
                self.watch.end(self.ready(), self.epoch)
                self.narrowed = int(self.ready().counters()["narrowed_images"])
            self._close_ended(stretch)
            self._count_end(session, stretch, further)
        except BaseException:
            if session.core.ended:  # else the loop would continue with the next epoch, or the pipeline would deliver this stretch again
                try:
                    self._close_ended(stretch)
                finally:
                    self._count_end(session, stretch, further)
            raise
        return self._take() if stretch else None

    def _close_ended(self, stretch: bool) -> None:
        """Closes the pipeline of a stretch of ids that has ended, or of an epoch that has, if the next one needs another pipeline. Does nothing if it is already
        closed."""
        if not stretch and self._own_pipelines:
            self._keep_data()
        if stretch or self._own_pipelines:
            self._drop()

    def _count_end(self, session: Session, stretch: bool, further: Further | None) -> None:
        """Counts the end of an epoch, or of a stretch of its ids, that a session has reported. further: the next stretch; None: it is not drawn yet."""
        session.next()  # counts the end too, unless it has done so
        if stretch:
            self.source.forget_orders()
            assert self.order is not None
            ids, rest = (None, self.order.rest) if further is None else further
            before, count = self._steps_before + session.delivered, None if ids is None else len(ids)
            # No call follows, at which an interrupt could come.
            self.before, self.resumed, self.ids, self.indices, self.count, self.order.rest = before, None, None, ids, count, rest
        else:
            self._next_epoch()
        session.core.ended = False

    def put_back(self, failed: bool, changed: bool) -> None:
        """Makes the batch of the last take() the next one again, unless it has `failed` or was handed on. changed: a user's function may have changed the batch
        in place, so that the next take() gives another one instead (see _replace_changed)."""
        if self.session is None or self.session.core.held is None:
            return
        if failed:
            self.session.core.held = None
            return
        self.session.put_back()
        self.changed = changed

    def _replace_changed(self) -> None:
        """Makes a new pipeline, which makes the batch that was put back again. If the source would have to begin its epoch again for this, leaves the batch out
        instead."""
        self.changed = False
        if self.source.owns_pipeline and self.source.restarts:
            self.close()
            self.inside = True
        elif self.session is not None:
            self.session.next()
            self.session.core.held = None

    @property
    def step(self) -> int:
        """Returns the number of batches taken in this epoch."""
        return self._steps_before + (0 if self.session is None else self.session.step)

    @property
    def _steps_before(self) -> int:
        """Returns the number of this epoch's batches that came before the current pipeline: in earlier stretches, and before a restore."""
        together = self.source.batch_size(self.spec) * (1 if self.per_rank else self.spec.shard.world)
        return self.before + int((self.resumed or {}).get("consumed", 0)) // together

    @property
    def last(self) -> bool:
        """Returns whether the batch taken last is known to be the epoch's last."""
        return self.session is not None and self.session.last and not (self.order is not None and self.order.rest is not None)

    # ---- state ----

    def state(self) -> dict[str, Any]:
        """Returns the entries of a saved state: the position and the seed; at the start of an epoch also facts about the data; in mid-epoch also a digest of
        the sampler's ids. Raises StateError in mid-epoch if the ids of this epoch are drawn in stretches (see in_stretches)."""
        if self.in_stretches and self.step:
            raise StateError(
                "a sampler without a length has no position that can be saved: give a function of the epoch that returns the ids of one epoch"
            )
        state = {**self.position(), **self.source.saved(self.spec), "seed": self.spec.seed}
        if state["pipeline"] is None:
            self._keep_data()
            if self.data is not None:
                state["data"] = copy.deepcopy(self.data)
        if self.order is not None:
            state["own_order"] = True
        if self.order is not None and state["pipeline"] is not None:
            if self.ids is None and self.drawn == self.epoch:
                self.ids = self._drawn_ids()
            if self.ids is not None:
                state["order"] = self.ids.facts()
        return state

    def position(self) -> dict[str, Any]:
        """Returns the position as entries of a state: the epoch, and the pipeline's state, or None at the start of an epoch."""
        goes_on = not self.source.owns_pipeline and self.resumed is None
        if self.session is None or (self.session.step == 0 and not goes_on):
            return {"epoch": self.epoch, "pipeline": copy.deepcopy(self.resumed)}
        core = self.session.state()
        if self.order is None and not self.source.makes_order:
            # In a pipeline that the user made, an epoch's last batch may hold samples of the next epoch, which then has consumed samples before its first
            # batch.
            begun = self.session.step > 0 or core["consumed"] > 0
            over = not begun or (core.get("streamed") and core["epoch"] > self.epoch)
            return {"epoch": core["epoch"], "pipeline": None if over else core}
        done = core["epoch"] + self.base > self.epoch
        done = done or not self.source.steps_left(self.epoch, core["consumed"], self.spec, self.indices, self.per_rank)
        ends = done and not (self.order is not None and self.order.rest is not None)  # else the next stretch follows
        return {"epoch": self.epoch + ends, "pipeline": None if done else core}

    @property
    def per_rank(self) -> bool:
        """Returns whether each rank has its own sequence of ids, instead of one sequence for all ranks."""
        return self.source.per_rank or (self.order is not None and self.order.per_rank)

    def dataset_samples(self, batch: _core.Batch) -> list[tuple[int, bool]]:
        """Returns (id, padded) for each sample of a batch of a Dataset. The C library only knows the samples' positions in the epoch. padded: whether the
        sample is a repeated one that fills the batch."""
        positions = [batch.sample(i)[1] for i in range(len(batch))]
        return self.source.samples(self.epoch, positions, self.spec, self.indices)

    def load(self, state: Saved) -> None:
        """Sets the position from a saved state of the same data. Raises StateError for other states, and then keeps the old position and the drawn ids."""
        self.source.check_loadable()
        place, seed = self._place(), self.spec.seed
        own_seed, one_epoch = self.source.pipeline_seed(), self.source.one_epoch
        self._keep_data()
        data = self.data
        try:
            self._load(state)
            if not self.source.makes_order:
                self.ready()  # restores the state in a new pipeline, which raises an error if it refuses the state
            self.source.check_targets(state.targets)
            self._again, self.loaded = None, self.resumed
        except BaseException:
            self._drop()
            self._go_on_with(seed, own_seed)
            self._return_to(place)
            self.source.one_epoch, self.data, self.unchecked = one_epoch, data, None
            raise

    def _place(self) -> _Place:
        """Returns where a new pipeline continues after the batch that was taken last."""
        position = self.position()
        rest = None if self.order is None else self.order.rest
        place = _Place(
            position["epoch"],
            position["pipeline"],
            self.ids,
            self.indices,
            self.drawn,
            self.count,
            self.spec.batch,
            self.before,
            rest,
            self.loaded_inside,
        )
        if place.epoch != self.epoch:
            place.ids, place.before = None, 0
            if self.in_stretches:  # the ids are only those of the last stretch
                place.drawn, place.count = -1, None
        elif rest is not None and place.resumed is None and self.session is not None and self.session.step > 0:  # the stretch has ended
            place.indices, place.before = None, self.step
        return place

    def _return_to(self, place: _Place) -> None:
        """Sets the position to one that _place returned. The sampler is not called again, because a sampler that draws random numbers would return other
        ids."""
        self.epoch, self.resumed, self.ids, self.inside = place.epoch, place.resumed, place.ids, False
        self.indices, self.drawn, self.count, self.spec.batch, self.before = (
            place.indices,
            place.drawn,
            place.count,
            place.batch,
            place.before,
        )
        self.loaded = place.resumed if place.loaded_inside else None
        if self.order is not None:
            self.order.rest = place.rest
            self.source.forget_orders()

    def _load(self, state: Saved) -> None:
        self._drop()
        self._leave_stretches()
        in_other_order = state.own_order != (self.order is not None)
        without = state.without_order(self.spec.shuffle) if in_other_order else state
        self.source.restore(without, self.spec)
        if in_other_order:
            self._refuse_mid_epoch(state)
        state = without
        self._go_on_with_seed(state)
        self.epoch = state.epoch
        self.resumed, self.ids = state.pipeline, state.order
        self.unchecked, self.data = state.data, state.data if state.dataset is None else None
        self.inside = False
        if self.order is not None or self.source.makes_order:
            self._pass_ended_epoch()
            self._check_ids()

    def _refuse_mid_epoch(self, state: Saved) -> None:
        """Raises StateError if a state is in mid-epoch. Call if only one of the saved run and this one has an order of its own."""
        if state.pipeline is not None and state.pipeline["consumed"]:
            theirs, ours = ("without", "has one") if self.order is not None else ("with", "has none")
            raise StateError(
                f"the state is in mid-epoch, of a Loader {theirs} an order of its own; this one {ours} (sampler, batch_sampler or bucket_by), so that "
                "some samples would come twice and others never: give the order of the run that was saved, or save at the end of an epoch"
            )

    def _go_on_with_seed(self, state: Saved) -> None:
        """Replaces the seed of this Loader by that of the saved run, for the order and for random draws."""
        seed = state.seed
        if seed is None and self.order is None and self.source.owns_pipeline:
            seed = state.pipeline_seed
        self._go_on_with(seed, state.pipeline_seed)

    def _go_on_with(self, seed: int | None, pipeline_seed: int | None) -> None:
        if pipeline_seed is not None:
            self.source.go_on_with(pipeline_seed)
        if seed is not None and seed != self.spec.seed:
            self.spec.seed, self.drawn = seed, -1
            if self.order is not None:
                self.order.go_on_with(seed)

    def _pass_ended_epoch(self) -> None:
        """Goes to the next epoch if the restored epoch has less than one step left. This happens if the state comes from fewer ranks or smaller batches, or was
        saved after the last batch of an epoch before the end was known. Raises StateError if the sampler gives another number of ids than in the saved run."""
        if self.resumed is None:
            return
        consumed = int(self.resumed["consumed"])
        ids = self._indices()
        total = len(ids) if ids is not None else self.samples()
        if self.ids is not None and self.ids.samples != total:
            self._refuse_other_ranks(self.ids)
            raise StateError(
                f"the state is of epochs of {self.ids.samples} samples; here they have {total}: give the sampler of the run that was saved"
            )
        if total is None:
            left = self.source.has_step(self.epoch, consumed, self.spec)
        else:
            left = self.spec.has_step(total, consumed, self.per_rank)
        if not left:
            self.epoch += 1
            self.resumed = self.ids = None

    def go_to(self, epoch: int) -> None:
        """Goes to the beginning of an epoch, and closes the current pipeline. Raises StateError if the source is a user's Pipeline, unless the
        next iteration would begin this epoch anyway, because the loop has begun the one before it. An epoch that feed_input feeds continues until its end."""
        may_leave = self.session is None or self.session.can_skip_epoch
        if not self.source.owns_pipeline and self._has_begun and epoch == self.epoch + 1 and may_leave:
            return self._leave()
        self.source.check_set_epoch()
        self._drop()
        self._leave_stretches()
        self.source.one_epoch = False
        self.epoch = epoch
        self.resumed = self.ids = self._again = None
        self.inside = False

    def close(self) -> None:
        """Stops the work but keeps the position: state() returns the same as before, and a new iteration continues from it."""
        session, self._again = self.session, None
        if session is None or session._pid != os.getpid():  # in a forked child, the session belongs to the parent process
            self._drop()
            return
        if not self.source.owns_pipeline:  # the user's Pipeline keeps its position, and stays open
            self.inside, session.keeps_state = False, True
            session.interrupt(False)
            return
        place = self._place()
        self._keep_data()
        if place.epoch != self.epoch:
            self.source.one_epoch = False
        try:
            self._drop()  # before the order changes, because the pipeline's threads use it
        finally:
            self._return_to(place)

    def interrupt(self) -> None:
        """Makes the thread that is inside the Loader leave soon, with an error. Call from another thread."""
        session, made = self.session, self._made
        if session is not None:
            session.interrupt(True)
        if made is not None:
            made.close()
        self.source.close()
