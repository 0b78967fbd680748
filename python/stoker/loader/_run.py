# SPDX-License-Identifier: Apache-2.0
"""The pipeline behind a Loader, epoch after epoch: built when needed, restored, skipped, saved."""

from __future__ import annotations

import os
from array import array
from typing import Any

from stoker import _core
from stoker._ranks import check_agreement, together
from stoker._session import Session
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError, StokerError
from stoker.loader._dataset import DatasetSource
from stoker.loader._order import Order
from stoker.loader._random import mix
from stoker.loader._saved import Ids, Saved, digest
from stoker.loader._sources import Source
from stoker.loader._spec import Spec
from stoker.loader._tars import TarSource
from stoker.loader._waiting import Watch
from stoker.pipeline import Pipeline


class Run:
    """Batches of one epoch after another. With an order of the user's, each epoch has a pipeline of its own."""

    def __init__(self, source: Source | Pipeline, spec: Spec, order: Order | None) -> None:
        self.source, self.spec, self.order = source, spec, order
        self.pipe: Pipeline | None = None
        self._session: Session | None = None  # the pipeline's
        self._made: Pipeline | None = None  # while it is built
        self.epoch = 0
        self.inside = False  # an epoch has begun and is not at its end
        self.base = 0  # epoch that the pipeline calls 0
        self.resumed: dict[str, Any] | None = None  # state in which this epoch began; None: at its start
        self.indices: array[int] | None = None  # of the user's order, for the epoch `drawn`
        self.drawn = -1
        self.ids: Ids | None = None  # of this epoch, as a state keeps them; None: none was saved or loaded in it
        self.count: int | None = None  # how many
        self.descs: list[tuple[int, list[int], str]] = []  # of the outputs
        self.total: int | None = None  # samples of a source of one epoch, if they were asked for while it was read
        self.bad: list[StokerError] = []  # bad samples of pipelines before this one
        self.narrowed = 0  # images of 16 bits a channel that were rounded to 8, when the last epoch ended
        self.watch = Watch(f"rank {spec.shard.rank} of {spec.shard.world}: " if spec.shard.world > 1 else "")

    # ---- making pipelines ----

    def _indices(self) -> array[int] | None:
        """Of this epoch: the user is asked once."""
        if self.order is not None and self.drawn != self.epoch:
            self.indices, self.drawn = self.order.indices(self.epoch), self.epoch
            self.count = len(self.indices)
        return self.indices

    def _check_ids(self) -> None:
        """Refuses to go on from a state in an order that is not the one of the run that was saved: samples would come twice, and others not at all."""
        if self.order is None or self.resumed is None or self.ids is None:
            return
        if self.ids.differ(self._drawn_ids()):
            raise StateError(
                f"the sampler gives epoch {self.epoch} other ids than in the run that was saved, so that samples would come twice and others not at all: "
                f"{self.order.repeated}"
            )

    def _drawn_ids(self) -> Ids:
        return Ids.drawn(self._indices() or array("q"), self.spec.shard if self.per_rank else None)

    def ready(self) -> Pipeline:
        """The pipeline for this epoch."""
        if self.pipe is None:
            self.pipe = self.source if isinstance(self.source, Pipeline) else self._make(self.source)
            self._session = self.pipe._started()
            if isinstance(self.source, DatasetSource):
                self._session.before = self.source.let_all_begin  # a user who runs the pipeline has no other word to say it by
            self._tell_ranks_without_samples(self._session)
            self._restore(self._session)
            self.descs = [(dtype, shape, layout) for dtype, _, shape, layout in self._session.outputs()]
        return self.pipe

    def _tell_ranks_without_samples(self, session: Session) -> None:
        """With last_batch="keep" the last step of an epoch may have samples for some of the ranks only. The others have a step of no samples, since a rank that
        had a step less would let the others wait for it for ever."""
        meta = session.meta()
        ranks, size = int(meta.get("number_of_shards", 1)), meta.get("epoch_size", -1)
        batch = self.pipe.batch_size if self.pipe is not None else self.spec.batch
        left = size % (batch * ranks) if meta.get("keeps") and size > 0 else 0
        if ranks > 1 and 0 < left <= batch * (ranks - 1):
            notice(
                f"the last batch of an epoch has no samples on {ranks - -(-left // batch)} of {ranks} ranks ({size} samples in batches of {batch} for each "
                'rank; the mean of its loss is NaN): last_batch="pad" fills it up with repeats and marks them (`valid`), "drop" leaves it out on all ranks'
            )

    def _make(self, source: Source) -> Pipeline:
        indices = self._indices()
        self._check_ids()
        per_rank = self.per_rank
        if per_rank and self.order is not None:
            check_agreement(f"the length of their samplers in epoch {self.epoch}", {"length": self.count}, self.spec.shard)
        own_epochs = self.order is not None
        rank = self.spec.shard.rank if per_rank else 0  # where each rank counts its own positions, so that equal ones need other seeds
        seed = mix(self.spec.seed, self.epoch if own_epochs else 0, rank) if own_epochs or rank else self.spec.seed
        self.base = self.epoch if own_epochs else 0
        settings = self.spec.settings
        if isinstance(source, DatasetSource):
            source.begin(self.epoch, int((self.resumed or {}).get("consumed", 0)), self.base)
            if settings.get("on_error") == "skip":  # a share of an epoch, whose length the library does not know
                settings = {**settings, "max_errors": max(1, source.most_errors(self.spec))}
        if isinstance(source, DatasetSource) and self.order is not None:
            self.order.check(source.size or 0)
        try:
            pipe = self._built(source, seed, settings, indices)
        except InvalidArgumentError:
            if indices is not None and not isinstance(
                source, DatasetSource
            ):  # how many samples there are says more than an id that is none of them
                self._check_order(self._built(source, seed, settings, None))
            raise
        if not isinstance(source, DatasetSource):
            self._check_order(pipe)
        pipe.keep_bad_samples(self.bad)
        return pipe

    def _built(self, source: Source, seed: int, settings: dict[str, Any], indices: array[int] | None) -> Pipeline:
        pipe = Pipeline(self.spec.batch, seed=seed, enable_conditionals=True, **settings)
        with pipe:
            pipe.set_outputs(*source.nodes(self.spec, indices, self.per_rank))
        self._made = pipe
        try:
            pipe.build()
        finally:
            self._made = None
        return pipe

    def _check_order(self, pipe: Pipeline) -> None:
        if self.order is not None:
            self.order.check(pipe._started().meta()["samples"] or 0)

    def _restore(self, session: Session) -> None:
        state = self.resumed
        if state is None and self.epoch > self.base:
            state = {**session.state(), "epoch": self.epoch - self.base}
        if state is not None:
            own = {} if self.pipe is self.source else {"seed": session.state()["seed"]}  # made from the run's: another one on each rank
            session.restore({**state, **own})
        if self.resumed is not None and self.order is None:
            epoch = int(session.state()["epoch"])
            if epoch != self.epoch:  # the library passed over what was left of the other one
                self.epoch, self.resumed = epoch, None

    def agree(self) -> None:
        """Ranks that were started with other files, order or seeds are told so, instead of training on."""
        spec, order = self.spec, self.order
        if together(spec.shard) is None:
            return
        told: dict[str, Any] = {"ranks": spec.shard.world, "batch size": spec.batch, "last batch": spec.last_batch, "seed": spec.seed}
        told["order"] = "shuffled" if spec.shuffle else "in order" if order is None else type(order).__name__
        if isinstance(self.source, DatasetSource):
            told["samples"] = self.source.size
        else:
            meta = self.meta()
            told |= {"files (digest)": f"{meta.get('fingerprint', 0):016x}", "samples": meta.get("epoch_size")}
        if order is not None and order.per_rank:
            told["length of the sampler"] = order.length() or self.count
        elif order is not None:
            told["ids of the sampler (digest)"] = digest(self._indices() or array("q"))
        check_agreement("what they read", told, spec.shard)

    # ---- what it is ----

    def meta(self) -> dict[str, Any]:
        """Metadata of the reader; {} where there is none."""
        return self.ready()._started().meta()

    def samples(self) -> int | None:
        """Samples in an epoch, of all ranks together."""
        if self.order is not None:
            if self.order.length() is None and self.count is None:
                self._indices()
            return self.order.length() or self.count
        if isinstance(self.source, DatasetSource):
            return self.source.size
        size = self.meta().get("epoch_size")
        return self.total if size is None or size < 0 else int(size)

    def counted(self) -> int | None:
        """Samples in an epoch. Where they are not known because tars are read as they lie, the tars are searched now, which may take minutes."""
        if isinstance(self.source, Source) and self.source.one_epoch and self.samples() is None:
            if self.step or self.resumed is not None:
                self.total = self.source.count(self.spec)
            else:
                self._drop()
                self.source.index()
        return self.samples()

    def data_size(self) -> int | None:
        """Samples in the data, whatever an epoch takes of them."""
        if isinstance(self.source, DatasetSource):
            return self.source.size
        size = self.meta().get("samples")
        return self.counted() if size is None or size < 0 else int(size)

    # ---- batches ----

    def begin(self) -> None:
        """The epoch that is to be iterated: what is left of one that was restored, else the next one after one that was left."""
        if self.inside and self.step:
            self._leave()
        if isinstance(self.source, DatasetSource):
            if not self.inside and self.resumed is None and self.source.resized():
                self._drop()
            if self.pipe is None:
                self._pass_ended_epoch()
            self.source.let_begin(self.epoch)
        self.inside = True
        self.ready()

    def _leave(self) -> None:
        """Ends the current epoch where it is."""
        assert self._session is not None
        self.watch.begun = None
        if self._own_pipelines or isinstance(self.source, DatasetSource):
            self._drop()
        else:
            self._session.skip_epoch()
        self._next_epoch()

    @property
    def _own_pipelines(self) -> bool:
        """Whether the epoch's pipeline is its own."""
        return self.order is not None or (isinstance(self.source, Source) and self.source.one_epoch)

    def _by_index(self) -> None:
        """From here on the data are read as they are in all epochs but a first one."""
        if isinstance(self.source, Source):
            self.source.one_epoch = False

    def _next_epoch(self) -> None:
        self._by_index()
        self.epoch += 1
        self.resumed = self.ids = None
        self.inside = False

    def _drop(self) -> None:
        if self.pipe is not None and self.pipe is not self.source:
            if self._session is not None and self._session._pid == os.getpid():
                self.bad = self.pipe.bad_samples()
            self.pipe.close()
        self.pipe = self._session = None
        if isinstance(self.source, Source):
            self.source.close()

    def take(self) -> _core.Batch | None:
        """The next batch that has samples; None at the end of the epoch. A batch of which all samples are bad is left out: it counts as a step of the epoch."""
        batch, left_out = self._take(), 0
        while batch is not None and not len(batch):
            assert self._session is not None
            session, left_out = self._session, left_out + 1
            if not session.leaves_out(batch, max(self.spec.shard.world, int(session.meta().get("number_of_shards", 1)))):
                return batch
            epoch, steps = self.epoch, session.step
            batch = self._take()
            if batch is None and left_out == steps:
                session.refuse_unread(epoch)
        return batch

    def _take(self) -> _core.Batch | None:
        session = self._session or self.ready()._started()
        if session.step == 1:
            self.watch.first_step_done(self.ready())
        batch = session.next()
        if batch is None:
            self.watch.end(self.ready(), self.epoch)
            self.narrowed = int(self.ready().counters()["narrowed_images"])
            if self._own_pipelines:
                self._drop()
            self._next_epoch()
        return batch

    @property
    def step(self) -> int:
        """Batches taken of this epoch, since it began or was restored."""
        return 0 if self._session is None else self._session.step

    @property
    def last(self) -> bool:
        """Whether the batch taken last is known to be the epoch's last."""
        return self._session is not None and self._session.last

    # ---- state ----

    def state(self) -> dict[str, Any]:
        """Where the run stands, and what the user's order is known by."""
        state = {**self.place(), "seed": self.spec.seed}
        if isinstance(self.source, Pipeline):
            state["pipeline_seed"] = self.source.seed
        if self.order is not None and state["pipeline"] is not None:
            if self.ids is None and self.drawn == self.epoch:
                self.ids = self._drawn_ids()
            if self.ids is not None:
                state["order"] = self.ids.facts()
        return state

    def place(self) -> dict[str, Any]:
        """Epoch, and what of it all ranks together have had."""
        facts = {"dataset": self.source.facts(self.spec)} if isinstance(self.source, DatasetSource) else {}
        own_order = self.order is not None or bool(facts)
        goes_on = isinstance(self.source, Pipeline) and self.resumed is None
        if self._session is None or (self._session.step == 0 and not goes_on):
            return {"epoch": self.epoch, "pipeline": self.resumed, **facts}
        core = self._session.state()
        if not own_order:
            # Before its first batch an epoch may have had samples, in the last batch of the one before: a pipeline of the user's goes on across the end.
            begun = self._session.step > 0 or core["consumed"] > 0
            over = not begun or (core.get("streamed") and core["epoch"] > self.epoch)
            return {"epoch": core["epoch"], "pipeline": None if over else core}
        done = core["epoch"] + self.base > self.epoch
        if isinstance(self.source, DatasetSource):  # the pipeline learns of the end of an epoch when the source is asked for more
            done = done or not self.source.steps_left(self.epoch, core["consumed"], self.spec, self.indices, self.per_rank)
        return {"epoch": self.epoch + done, "pipeline": None if done else core, **facts}

    @property
    def per_rank(self) -> bool:
        """Whether the ids are of this rank alone, and not of the sequence of all ranks together."""
        if isinstance(self.source, DatasetSource) and self.source.per_rank:
            return True
        return self.order is not None and self.order.per_rank

    def dataset_samples(self, batch: _core.Batch) -> list[tuple[int, bool]]:
        """Of a batch of a Dataset: ids, and whether each only fills the batch up. The library knows their positions alone."""
        assert isinstance(self.source, DatasetSource)
        positions = [batch.sample(i)[1] for i in range(len(batch))]
        return self.source.samples(self.epoch, positions, self.spec, self.indices)

    def load(self, state: Saved) -> None:
        """Takes over a state of the right types. Whether it belongs to this data is checked here for a Dataset, else when the pipeline is made."""
        self._drop()
        if isinstance(self.source, Pipeline) and self.source._started().delivered:
            raise StateError("a state is loaded before the first batch of a pipeline; make a new one")
        if isinstance(self.source, DatasetSource):
            self.source.restore(state.dataset, self.spec)
        elif state.dataset is not None:
            raise StateError("the state is of a Loader over a Dataset")
        own = state.order is not None or (state.pipeline is not None and state.pipeline["epoch"] != state.epoch)
        if own and self.order is None:
            raise StateError("the state is of a Loader with an order of its own (sampler); this one has none")
        if isinstance(self.source, Source) and (state.epoch or state.pipeline is not None):
            self.source.one_epoch = isinstance(self.source, TarSource) and bool((state.pipeline or {}).get("streamed"))
        self._go_on_with_seed(state)
        self.epoch = state.epoch
        self.resumed, self.ids = state.pipeline, state.order
        self.inside = False
        if self.order is not None or isinstance(self.source, DatasetSource):
            self._pass_ended_epoch()
            self._check_ids()

    def _go_on_with_seed(self, state: Saved) -> None:
        """The run that is resumed had one seed for its order and its draws: both go on with it, whatever seed this Loader was given."""
        seed = state.seed
        if isinstance(self.source, Pipeline):
            if state.pipeline_seed is not None:
                self.source._go_on_with_seed(state.pipeline_seed)
        elif seed is None and self.order is None:
            seed = state.pipeline_seed
        if seed is not None and seed != self.spec.seed:
            self.spec.seed, self.drawn = seed, -1
            if self.order is not None:
                self.order.go_on_with(seed)

    def _pass_ended_epoch(self) -> None:
        """Nothing may be left of the epoch, or less than a step, where the state is of fewer ranks or smaller batches, or was taken behind the last batch before
        the end was known: then the next one begins."""
        if self.resumed is None:
            return
        consumed = int(self.resumed["consumed"])
        ids = self._indices()
        total = len(ids) if ids is not None else self.samples()
        if self.ids is not None and self.ids.samples != total:
            raise StateError(
                f"the state is of epochs of {self.ids.samples} samples; here they have {total}: give the sampler of the run that was saved"
            )
        if total is None:
            left = not isinstance(self.source, DatasetSource) or self.source.has_step(self.epoch, consumed, self.spec)
        else:
            together = self.spec.batch * (1 if self.per_rank else self.spec.shard.world)
            left = consumed + together <= total if self.spec.last_batch == "drop" else consumed < total
        if not left:
            self.epoch += 1
            self.resumed = self.ids = None

    def go_to(self, epoch: int) -> None:
        """To the beginning of an epoch."""
        if isinstance(self.source, Pipeline):
            raise StateError("set_epoch: a Pipeline of the user's goes through its epochs in order")
        self._drop()
        self._by_index()
        self.epoch = epoch
        self.resumed = self.ids = None
        self.inside = False

    def close(self) -> None:
        """Gives the work up, and stays where it is: the state is the same, and a new iteration goes on from there."""
        # After a fork the work and its place are the parent's; a Pipeline is the user's, and keeps its own place.
        if self._session is not None and self.pipe is not self.source and self._session._pid == os.getpid():
            state = self.place()
            if state["epoch"] != self.epoch:
                self._by_index()
            self.epoch, self.resumed = state["epoch"], state["pipeline"]
            self.inside = False
        session, users = self._session, self.pipe is self.source
        self._drop()
        if session is not None and users:
            session.interrupt(False)

    def interrupt(self) -> None:
        """From another thread than the one inside, which is then soon outside: what it waits for ends by an error."""
        session, made = self._session, self._made
        if session is not None:
            session.interrupt(True)
        if made is not None:
            made.close()
        if isinstance(self.source, Source):
            self.source.close()
