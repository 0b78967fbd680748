# SPDX-License-Identifier: Apache-2.0
"""The class Pipeline, a graph of operators that can be run, and the decorator pipeline_def. Both have the same interface as in DALI."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn, Unpack, overload

from stoker import _core, _definition, _files, types
from stoker._at_exit import check_leaving, close_at_exit, library_call
from stoker._branches import converted
from stoker._branches import do_not_convert as do_not_convert
from stoker._build import GraphBuilder, NodeRef, Record, UserSource, current_builder
from stoker._context import workers
from stoker._elsewhere import no_attribute
from stoker._external import add_fed_sources
from stoker._numbers import whole
from stoker._progress import ProgressLine
from stoker._session import Session
from stoker._settings import SETTINGS, Arguments, ByName, Leading, Settings, read_state, takes
from stoker._sources import BY_ALL_CALLS, BY_CALLS_OF_EPOCH, CallableSource, FedSource, Source
from stoker._where import log, notice, warn
from stoker.data_node import DataNode
from stoker.errors import ArgumentError, InvalidArgumentError, StateError, StokerError, UnknownArgumentError, from_status
from stoker.tensors import TensorList, stream_handle, tensor_list


@takes(ByName, shown=Arguments, brief=("batch_size", "num_threads", "device_id", "seed"))
class Pipeline:
    """A graph of operators and the threads that run it.

    Usually, calling a function that is decorated with @pipeline_def makes a
    pipeline. Without the decorator:

        pipe = Pipeline(batch_size=32, num_threads=4, device_id=None)
        with pipe:
            data, label = fn.readers.file(file_root="train")
            pipe.set_outputs(fn.decoders.image(data), label)
        images, labels = pipe.run()

    {settings}
    """

    def __init__(
        self,
        batch_size: int | None = None,
        num_threads: int | None = None,
        device_id: int | None = None,
        seed: int | None = None,
        *args: Any,
        **kwargs: Unpack[ByName],
    ) -> None:
        leading: Leading = {"batch_size": batch_size, "num_threads": num_threads, "device_id": device_id, "seed": seed}
        self._settings = Settings.from_arguments(leading, args, dict(kwargs))
        self._builder = GraphBuilder(self._settings.device_id)
        self._builder.conditionals = self._settings.enable_conditionals
        self._outputs: list[DataNode] | None = None
        self._ragged: list[tuple[int, ...]] = []
        self.endless = False
        self._session: Session | None = None  # None before build()
        self._workers: Any = None
        self._scheduled = 0
        self._given_up = False  # becomes True in close(), which another thread may call during build()
        self._held: Any = None
        self._bad_before: list[StokerError] = []  # errors with which bad_samples() begins
        self._number_bad_before = 0  # number of bad samples before the first one of this pipeline
        self._first_epoch = 0  # number of the first epoch in errors; a Loader that makes a pipeline for each epoch sets it before build()
        self._epoch_by_epoch = False  # whether functions wait for the consumer to begin each epoch; a Loader sets it before build()

    # ---- properties ----

    @property
    def batch_size(self) -> int:
        batch_size: int = self._settings.batch_size
        return batch_size

    max_batch_size = batch_size

    @property
    def num_threads(self) -> int:
        """Returns the number of worker threads."""
        return int(self._workers.core.threads) if self._workers else self._settings.num_threads or workers(None).core.threads

    @property
    def device_id(self) -> int | None:
        device_id: int | None = self._settings.device_id
        return device_id

    @property
    def seed(self) -> int:
        seed: int = self._settings.seed
        return seed

    @property
    def prefetch_queue_depth(self) -> int | dict[str, int]:
        """Returns the argument as given. If it is a dict for DALI's two queues,
        the larger number is used.
        """
        return self._settings.queues or int(self._settings.prefetch_queue_depth)

    @property
    def cpu_queue_size(self) -> int:
        return self._settings.queues.get("cpu_size", int(self._settings.prefetch_queue_depth))

    @property
    def gpu_queue_size(self) -> int:
        return self._settings.queues.get("gpu_size", int(self._settings.prefetch_queue_depth))

    @property
    def exec_pipelined(self) -> bool:
        return True

    exec_async = exec_dynamic = exec_pipelined

    @property
    def exec_separated(self) -> bool:
        return False

    @property
    def set_affinity(self) -> bool:
        """Returns the argument set_affinity, which has no effect."""
        return bool(self._settings.accepted.get("set_affinity", False))

    @property
    def enable_memory_stats(self) -> bool:
        return bool(self._settings.accepted.get("enable_memory_stats", False))

    @property
    def py_num_workers(self) -> int:
        workers: int = self._settings.py_num_workers
        return workers

    @property
    def py_start_method(self) -> str:
        method: str = self._settings.py_start_method
        return method

    @property
    def max_streams(self) -> int:
        return int(self._settings.accepted.get("max_streams", -1))

    @property
    def default_cuda_stream_priority(self) -> Any:
        return self._settings.accepted.get("default_cuda_stream_priority")

    @property
    def concurrency(self) -> Any:
        return self._settings.accepted.get("concurrency")

    @property
    def stream_policy(self) -> Any:
        return self._settings.accepted.get("stream_policy")

    @property
    def num_outputs(self) -> int:
        return len(self._outputs or ()) - sum(len(part) + 1 for part in self._ragged)

    @property
    def ragged_outputs(self) -> list[tuple[int, ...]]:
        """Returns (not in DALI) one tuple for each fn.pad_ragged that
        stoker.structured added, with the indices of the outputs that it pads.
        The results of these operators follow the first num_outputs outputs.
        """
        return self._ragged

    def keep_for_iterators(self, ragged: list[tuple[int, ...]], endless: bool = False) -> None:
        """Sets ragged_outputs and `endless` (not in DALI). run() does not return
        the results of fn.pad_ragged. endless: whether the reader reads
        sequences of samples, which have no epochs.
        """
        self._ragged = ragged
        self.endless = endless

    @property
    def is_restored_from_checkpoint(self) -> bool:
        return self._settings.checkpoint is not None

    def _described(self) -> list[tuple[int, int, str]]:
        """Returns (dtype, ndim, layout) of each output; dtype and ndim are -1 if they are not known before the first batch."""
        return [(dtype, ndim, layout) for dtype, ndim, _, layout in self._started().outputs()[: len(self._outputs or ())]]

    def output_dtype(self) -> list[types.DALIDataType | None]:
        """Returns the element type of each output; the declared one (or None) if
        it is not known before the first batch.
        """
        described = self._described()
        declared = self._settings.declared(len(described))
        return [want[0] if d[0] == -1 else types.DALIDataType(d[0]) for d, want in zip(described, declared, strict=True)]

    def output_ndim(self) -> list[int | None]:
        """Returns the number of dimensions of a sample of each output; the
        declared one (or None) if it is not known before the first batch.
        """
        described = self._described()
        return [want[1] if d[1] == -1 else d[1] for d, want in zip(described, self._settings.declared(len(described)), strict=True)]

    def output_layout(self) -> list[str]:
        """Returns the names of the axes of each output, such as "HWC", or ""."""
        return [d[2] for d in self._described()]

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Returns a dict with the metadata of a reader; without a name, a dict
        from the names of all readers to such dicts. The keys that DALI has too:
        epoch_size, epoch_size_padded, number_of_shards, shard_id,
        pad_last_batch, stick_to_shard. Only in Stoker: samples, steps (batches
        of this rank in an epoch), classes, fingerprint, and three bools that
        describe the order: wraps (a batch may continue in the next epoch),
        contiguous (a shard is one stretch of the samples), keeps (tail="keep").
        """
        session = self._started()
        return session.meta(name) if name is not None else {reader: session.meta(reader) for reader in session.core.readers()}

    def epoch_size(self, name: str | None = None) -> Any:
        """Returns the number of samples in an epoch of a reader, over all shards;
        without a name, a dict with the number of each reader. With
        pad_last_batch all shards count as if they were as long as the longest
        one, as in DALI.
        """
        meta = self.reader_meta(name)
        return meta["epoch_size_padded"] if name is not None else {k: m["epoch_size_padded"] for k, m in meta.items()}

    # ---- definition ----

    @staticmethod
    def current() -> Pipeline | None:
        """Returns the pipeline that is being defined, or None."""
        found: Pipeline | None = _definition.current()
        return found

    @staticmethod
    def push_current(pipeline: Pipeline) -> Pipeline | None:
        """Makes `pipeline` the one to which operators are added. Returns the
        pipeline to which they were added before, or None.
        """
        previous = Pipeline.current()
        _definition.begin(pipeline, pipeline._builder)
        return previous

    @staticmethod
    def pop_current() -> None:
        """Undoes the last push_current."""
        _definition.end()

    def __enter__(self) -> Pipeline:
        if self._session is not None:
            raise StateError("the pipeline is built: no operators can be added")
        Pipeline.push_current(self)
        return self

    def __exit__(self, *_: object) -> None:
        Pipeline.pop_current()

    def set_outputs(self, *nodes: Any) -> None:
        """Sets the outputs of the pipeline, in this order."""
        self._outputs = _definition.output_nodes(self._builder, nodes)

    def add_sink(self, edge: DataNode) -> None:
        """Computes a value in each batch although no output needs it. This serves
        operators with side effects, such as a python_function that prints.
        """
        if self._session is not None:
            raise StateError("the pipeline is built: no operators can be added")
        builder = current_builder() if Pipeline.current() is self else self._builder
        builder.add_sink(builder.node_of(edge._builder, edge.ref, "add_sink"))

    def define_graph(self) -> Any:
        """Makes the graph and returns its outputs. Subclasses override this."""
        raise NotImplementedError("the pipeline has no outputs: use @pipeline_def, set_outputs, or override define_graph")

    def iter_setup(self) -> None:
        """Does nothing. Subclasses override it to feed inputs with feed_input;
        it is called before each batch. If it raises StopIteration, the epoch
        ends. The next one begins after reset().
        """

    def build(self) -> None:
        """Compiles the graph. Methods that need the compiled graph call this, if
        it was not called before.
        """
        if self._session is not None:
            return
        if self._outputs is None:
            self._define(self.define_graph)
        assert self._outputs is not None
        if not self._outputs:
            raise InvalidArgumentError("the pipeline has no outputs")
        for ref in [*(node.ref for node in self._outputs), *self._builder.sinks]:
            self._builder.graph.output(ref)
        self._builder.built = True
        self._run_graph()

    def _define(self, define: Callable[[], Any]) -> None:
        with self:
            nodes = (converted(define) if self._settings.enable_conditionals else define)()
        self.set_outputs(*(nodes if isinstance(nodes, (list, tuple)) else (nodes,)))

    def _run_graph(self) -> None:
        """Starts the workers, creates the library's pipeline from a graph whose outputs are set, and begins a session. If a step fails, closes what was
        opened."""
        self._given_up = False
        try:
            self.start_py_workers()
            for user in self._builder.sources:
                user.source.first_epoch = self._first_epoch
            core = self._make_core()
            self._find_unused_inputs(core)
            self._session = Session(core, self._builder.sources, self._settings.timeout, self._first_epoch)
            self._check_given_up()
        except BaseException:
            self.close()
            for user in self._builder.sources:
                if isinstance(user.source, CallableSource):
                    user.source.stop()
            raise
        if type(self).iter_setup is not Pipeline.iter_setup:
            self._session.before = self.iter_setup
        close_at_exit(self)
        _notice_unpaired_readers(core, self._builder.records)
        if self._outputs is None:  # a deserialised graph: its last outputs are the sinks
            self._outputs = [None] * (len(self._session.outputs()) - len(self._builder.sinks))  # type: ignore[list-item]
        if not self._settings.check_outputs(self._described()):
            self._session.check = self._check_first
        if self._settings.accepted.get("enable_checkpointing"):
            _warn_of_unsaved_sources(self._builder.sources)
        if self._settings.checkpoint is not None:
            self._session.restore(read_state(self._settings.checkpoint))

    def _find_unused_inputs(self, core: _core.Pipeline) -> None:
        """Marks each source for feed_input whose values no output needs, because the library never takes a batch from it. Marks none if the pipeline has
        neither a reader nor a source that an output needs."""
        fed = [s for s in self._builder.sources if isinstance(s.source, FedSource)]
        if fed:
            unneeded = _unneeded(json.loads(self._builder.graph.serialize()))
            led = core.readers() or any(s.op not in unneeded for s in self._builder.sources)
            for s in fed:
                s.source.unused = bool(led) and s.op in unneeded

    def _go_on_with_seed(self, seed: int) -> None:
        """Creates the library's pipeline again if `seed`, that of a saved state, differs from the seed in use. Call before the first batch."""
        if self._session is not None and seed != self.seed:
            self._session.core.close()
            self._settings.seed = seed
            self._run_graph()

    def _make_core(self) -> _core.Pipeline:
        self._workers = workers(self._settings.num_threads)
        with ProgressLine() as line, library_call():
            # entries: number of objects listed so far; -1: a call without news, which only gives `listed` a chance to raise an error
            def listed(entries: int) -> None:
                self._check_given_up()
                check_leaving()
                if entries >= 0:
                    line.show(f"listing: {entries} objects")

            settings = self._settings.core_arguments()
            own = {"first_epoch": self._first_epoch, "epoch_by_epoch": self._epoch_by_epoch}
            return _core.Pipeline(self._workers.core, self._builder.graph, listed=listed, **own, **settings)

    def _check_given_up(self) -> None:
        if self._given_up:
            raise StateError("the pipeline was closed while it was built")

    def _check_first(self, batch: _core.Batch) -> None:
        """Raises InvalidArgumentError if an output of the first batch differs in type, number of dimensions or layout from its declaration."""
        lists = [tensor_list(batch, i) for i in range(len(self._outputs or ()))]
        self._settings.check_outputs([(int(t.dtype), t.ndim(), t.layout()) for t in lists])

    def _started(self) -> Session:
        if self._session is None:
            self.build()
        assert self._session is not None
        return self._session

    def _running(self) -> _core.Pipeline:
        return self._started().core

    # ---- batches ----

    def feed_input(
        self, data_node: DataNode | str, data: Any, layout: str | None = None, cuda_stream: Any = None, use_copy_kernel: bool = False
    ) -> None:
        """Passes a batch to an external_source that has no source. data_node: the
        node or the name of the external_source. If it has several outputs
        (num_outputs), feed each output by its node, or all of them by a tuple
        with a batch for each. The data is copied before this method returns,
        unless the external_source was made with no_copy=True. layout: the layout
        of these samples, if the external_source does not declare one.
        cuda_stream: a stream of torch or CuPy that writes data on a GPU; the copy
        waits for it. None or -1: the current stream of that library.
        use_copy_kernel has no effect.
        """
        self.build()
        builder = self._builder
        output: int | None = None
        if isinstance(data_node, str):
            op = next((s.op for s in builder.sources if s.name == data_node), -1)
        else:
            op, output = builder.source_of(builder.node_of(data_node._builder, data_node.ref, "feed_input"))
        for fed in builder.sources:
            if op == fed.op:
                if not isinstance(fed.source, FedSource):
                    raise InvalidArgumentError(f"external_source {fed.name!r} has a source of its own")
                stream = None if cuda_stream == -1 else cuda_stream
                if output is not None and fed.source.outputs > 1 and not _is_of_all(data, fed.source.outputs):
                    fed.source.feed_output(output, data, self.batch_size, layout, stream)
                else:
                    fed.source.feed(data, self.batch_size, layout, stream)
                return
        known = ", ".join(repr(s.name) for s in builder.sources if isinstance(s.source, FedSource)) or "none"
        raise UnknownArgumentError(f"feed_input: there is no external_source {data_node!r}; those without a source: {known}")

    def enable_api_check(self, enable: bool) -> None:
        """Does nothing; exists for compatibility with DALI. run, outputs and
        share_outputs may be mixed.
        """

    def start_py_workers(self) -> None:
        """Starts the processes of external_source(parallel=True). build() does
        this too.
        """
        for source in self._builder.sources:
            if isinstance(source.source, CallableSource):
                settings = self._settings
                source.source.start(self.batch_size, settings.py_num_workers, settings.py_start_method, settings.py_callback_pickler)

    def external_source_shm_statistics(self) -> dict[str, list[int]]:
        """Exists for compatibility with DALI: returns a dict of empty lists."""
        return {"capacities": [], "per_sample_capacities": []}

    def output_stream(self) -> None:
        """Exists for compatibility with DALI: a delivered batch is complete, so
        any stream may read it.
        """

    def save_graph_to_dot_file(self, filename: str | os.PathLike[str], **_: Any) -> None:
        """Writes the graph as a Graphviz file: one node for each operator, with
        its name and line.
        """
        lines = ["digraph pipeline {"]
        for i, record in enumerate(self._builder.records):
            lines.append(f"  op{i} [label={json.dumps(f'{record.name or record.op} ({record.op}, {record.where})')}];")
            lines += [f"  op{node.op} -> op{i};" for node in record.operands()]
        lines += [f'  op{node.ref.op} -> out{k}; out{k} [label="output {k}", shape=box];' for k, node in enumerate(self._outputs or [])]
        _files.write(filename, "\n".join([*lines, "}", ""]))

    def input_feed_count(self, input_name: str) -> int:
        """Returns 1, the number of batches to feed before the first run."""
        return 1

    def _next(self) -> _core.Batch:
        return self._started().take()

    def _take(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Returns the next batch. If an interrupt comes before this returns (KeyboardInterrupt, SystemExit), the next call returns the same batch."""
        session = self._started()
        session.hold()
        try:
            batch = self._next()
            if cuda_stream is not None:
                batch.use_stream(stream_handle(cuda_stream))
            made = tuple(tensor_list(batch, i) for i in range(self.num_outputs))
        except BaseException as e:
            if not isinstance(e, Exception):
                session.put_back()
            raise
        session.core.held = None  # no call follows, at whose end an interrupt could come
        return made

    def run(self, cuda_stream: Any = None, /, **inputs: Any) -> tuple[TensorList, ...]:
        """Returns one batch: a tensor list for each output. Releases the previous
        batch. run(name=batch) feeds the external_source `name` first.
        cuda_stream: a stream that will read the batch, as for
        TensorListGPU.use_stream; not needed for streams that read tensors
        through DLPack. Raises StopIteration after iter_setup or an
        external_source has ended the epoch, until reset().
        """
        for name, data in inputs.items():
            self.feed_input(name, data)
        return self.outputs(cuda_stream)

    def outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Releases the previous batch, and returns the next one."""
        self.release_outputs()
        return self.share_outputs(cuda_stream)

    def schedule_run(self) -> None:
        """Starts to prepare batches, and returns at once."""
        self._running().start()
        self._scheduled += 1

    def share_outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Returns the next batch. release_outputs releases it, unless an object
        made from it is still referenced.
        """
        scheduled = max(0, self._scheduled - 1)
        self._held = held = self._take(cuda_stream)
        self._scheduled = scheduled
        return held

    def release_outputs(self) -> None:
        """Releases the batch that share_outputs returned."""
        self._held = None

    def start(self) -> None:
        """Starts to prepare batches."""
        self._running().start()

    def empty(self) -> bool:
        """Returns whether all batches of schedule_run were taken."""
        return self._scheduled == 0

    def reset(self) -> None:
        """Lets the next batch begin a new epoch, after StopIteration or after the
        last batch of the sources' epoch. At other times it does nothing, as
        in DALI.
        """
        if self._session is not None:
            self._session.reset()
        self._scheduled = 0

    def close(self) -> None:
        """Stops the work and frees the pipeline's memory; batches stay valid.
        Waits at most 2 s for calls of sources and functions to return, unless
        interrupted (Ctrl-C); if a call takes longer, the memory is freed when
        it returns. Called from another thread, this also ends a wait for a
        batch and a running build().
        """
        self._given_up = True
        if self._session is not None:
            self._session.close()

    def __del__(self) -> None:
        if getattr(self, "_session", None) is not None:
            self.close()

    def __getstate__(self) -> Any:
        raise TypeError("a Pipeline cannot be pickled: it owns threads and memory. Make it in the process that uses it, or use serialize()")

    # ---- state, serialisation, statistics ----

    def checkpoint(self, filename: str | os.PathLike[str] | None = None) -> bytes:
        """Returns the state after the batches that were taken, as JSON. Also
        writes it to the file `filename`, if given.
        """
        state = self._started().save().encode()
        if filename is not None:
            _files.write(filename, state)
        return state

    def serialize(self, define_graph: Any = None, filename: str | os.PathLike[str] | None = None) -> bytes:
        """Returns the graph and its settings as JSON, without Python sources.
        define_graph: a function that makes the graph and returns its outputs,
        for a pipeline that has no outputs yet.
        """
        if define_graph is not None and not callable(define_graph):
            raise ArgumentError(f"serialize: define_graph is a callable, not {define_graph!r}; a file's name is given as filename=")
        if define_graph is not None:
            self._define(define_graph)
        self.build()
        graph = json.loads(self._builder.graph.serialize())
        graph["sinks"] = len(self._builder.sinks)
        graph["pipeline"] = self._settings.as_json()
        data = json.dumps(graph, indent=1).encode()
        if filename is not None:
            _files.write(filename, data)
        return data

    @classmethod
    def deserialize(
        cls, serialized_pipeline: bytes | str | None = None, filename: str | os.PathLike[str] | None = None, **kwargs: Any
    ) -> Pipeline:
        """Makes a pipeline from serialized_pipeline, the result of serialize(), or
        from the file `filename`. Keyword arguments override settings.
        Each external_source must be fed with feed_input.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise InvalidArgumentError("deserialize takes serialized_pipeline or filename")
        text = _files.read_bytes(filename) if filename is not None else serialized_pipeline
        try:
            data = json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text or "")
            settings = Settings.from_json(data.pop("pipeline", {}))
            outputs = data.get("outputs")
            sinks = whole('"sinks"', data.pop("sinks", 0), 0, len(outputs) if isinstance(outputs, list) else 0)
        except (ValueError, AttributeError, RecursionError) as e:
            where = "this" if filename is None else os.fspath(filename)
            raise InvalidArgumentError(f"{where} is no serialised pipeline: {e}") from None
        pipe = cls(**{**settings, **kwargs})
        pipe._builder = GraphBuilder(pipe.device_id, graph=_core.Graph(json.dumps(data)))
        add_fed_sources(pipe._builder, data["operators"])
        pipe._builder.sinks = [NodeRef(-1, -1)] * sinks  # placeholders: the graph already has the sinks among its outputs
        pipe._run_graph()
        return pipe

    def deserialize_and_build(self, serialized_pipeline: bytes | str) -> None:
        """Replaces this pipeline's graph and settings, except the batch size, by
        those of a serialised pipeline, and compiles the graph.
        """
        other = Pipeline.deserialize(serialized_pipeline, batch_size=self._settings.batch_size)
        self.__dict__.update(other.__dict__)
        other._session = None

    def explain(self, as_json: bool = False) -> Any:
        """Describes the compiled graph (chains, passes, slots) as text, or with
        as_json=True as a dict.
        """
        text = self._running().explain(as_json)
        return json.loads(text) if as_json else text

    def counters(self) -> dict[str, float]:
        """Returns the values of all counters since the start, by name."""
        return self._running().counters()

    def executor_statistics(self) -> dict[str, float]:
        """Returns the counters, under DALI's name for them."""
        return self.counters()

    def bad_samples(self) -> list[StokerError]:
        """Returns the errors of samples that were skipped or replaced, oldest
        first. Only the last 10000 are kept. If there were more, a notice says
        how many.
        """
        bad, count = self._counted_bad_samples()
        if count > _core.BAD_SAMPLES_KEPT:
            log(f"bad_samples() has the last {len(bad)} of {count} bad samples: the errors of earlier ones are not kept")
        return bad

    def _counted_bad_samples(self) -> tuple[list[StokerError], int]:
        """Returns the errors of the last bad samples, oldest first, and the number of all bad samples."""
        core = self._running()
        bad = [*self._bad_before, *(from_status(*bad) for bad in core.bad_samples())]
        return bad[-_core.BAD_SAMPLES_KEPT :], self._number_bad_before + int(core.counters()["bad_samples"])

    def keep_bad_samples(self, bad: list[StokerError], count: int | None = None) -> None:
        """Sets the errors with which the list of bad_samples() begins (not in
        DALI); at most 10000 are kept. A Loader that makes a new pipeline for
        each epoch passes it the errors of the previous one. count: the number
        of bad samples, if errors are missing from the list.
        """
        self._bad_before = bad[-_core.BAD_SAMPLES_KEPT :]
        self._number_bad_before = len(bad) if count is None else count

    def _repr_html_(self) -> str:
        from stoker import _html

        return _html.of_pipeline(repr(self), None if self._session is None else self)

    def __repr__(self) -> str:
        state = "not built" if self._session is None else f"{self._session.delivered} batches delivered"
        return f"Pipeline(batch_size={self.batch_size}, device_id={self.device_id}, {self.num_outputs} outputs, {state})"


def _is_of_all(data: Any, outputs: int) -> bool:
    """Returns whether `data` is one batch for each of `outputs` outputs: a tuple of batches, or a list of tuples or lists."""
    if not isinstance(data, (tuple, list)) or len(data) != outputs:
        return False
    return isinstance(data, tuple) or all(isinstance(part, (tuple, list)) for part in data)


def _unneeded(graph: dict[str, Any]) -> set[int]:
    """Returns the indices of the operators in a serialised graph that no output needs."""
    operators, needed = graph["operators"], set()
    waiting = [op for op, _ in graph["outputs"]]
    while waiting:
        op = waiting.pop()
        if op in needed:
            continue
        needed.add(op)
        record = operators[op]
        waiting += [node[0] for node in record["inputs"]]
        waiting += [value["node"][0] for value in record.get("args", {}).values() if isinstance(value, dict) and "node" in value]
        waiting += [condition[0] for condition in record.get("when", ())]
    return {*range(len(operators))} - needed


def _warn_of_unsaved_sources(sources: Sequence[UserSource]) -> None:
    """Prints a warning, as DALI does, for each source whose samples depend on earlier calls: a checkpoint cannot hold the source's state."""
    where = {
        BY_CALLS_OF_EPOCH: "it can be restored only at the beginning of an epoch, where it begins again",
        BY_ALL_CALLS: 'it can be restored only at the beginning of the run; with cycle="raise", iterables and generator functions begin again with '
        "each epoch, and can be restored there",
    }
    for name, how in ((s.name, where.get(s.source.seek)) for s in sources if isinstance(s.source, Source)):
        if how is not None:
            warn(
                f"a checkpoint holds no state of the source of external_source {name!r}: {how}; a callable that takes the batch's number, a BatchInfo or a "
                "SampleInfo can be restored after any batch"
            )


def _notice_unpaired_readers(core: _core.Pipeline, records: Sequence[Record]) -> None:
    """Prints a notice if several readers differ in size or in order, so that their samples are not paired. Leaves out readers that Loader adds, whose names
    begin with "_": they are not meant to be paired."""
    names = [name for name in core.readers() if not name.startswith("_")]
    if len(names) < 2:
        return
    sizes = {name: core.reader_meta(name)["epoch_size"] for name in names}
    counts = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
    if len(set(sizes.values())) > 1:
        notice(
            f"the readers' data sets differ in size ({counts}): the epochs of the pipeline are those of {names[0]!r}. Each of the others has its "
            "own epochs, so that a sample is paired with another one in each epoch"
        )
        return
    orders = {_order_of(record) for record in records if record.op.startswith("readers.") and (record.name or "")[:1] != "_"}
    if len(orders) > 1:
        notice(
            f"the readers {', '.join(map(repr, names))} are in different orders (random_shuffle, shuffle_seed): their samples are not paired"
        )


def _order_of(record: Record) -> tuple[bool, int]:
    given = {name: value for name, _, value in record.args}
    shuffles = bool(given.get("random_shuffle") or given.get("shuffle_after_epoch"))
    seed = given.get("shuffle_seed") or max(given.get("seed", -1), 0)
    return shuffles, int(seed) if shuffles else 0


@overload
def pipeline_def(fn: Callable[..., Any]) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(fn: None = None, **pipeline_kwargs: Unpack[Arguments]) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...


def pipeline_def(fn: Callable[..., Any] | None = None, **pipeline_kwargs: Unpack[Arguments]) -> Any:
    """Decorates a function that calls operators and returns nodes. Calling the decorated function makes a Pipeline.

        @pipeline_def(batch_size=32, num_threads=4, device_id=None)
        def training(root):
            data, label = fn.readers.file(file_root=root, random_shuffle=True)
            return fn.resize(fn.decoders.image(data), size=224), label

        pipe = training("train", seed=7)      # arguments of Pipeline may also be given here

    The function runs only while the graph is built, and it runs twice. If an argument of an operator differs the second time, an error names the line. Such an
    argument is usually a random number from Python, which would stay the same for the whole run.
    """
    if fn is not None:
        return _decorate(fn, pipeline_kwargs)
    return functools.partial(_decorate, pipeline_kwargs=pipeline_kwargs)


def _decorate(fn: Callable[..., Any], pipeline_kwargs: Arguments) -> Callable[..., Pipeline]:
    @functools.wraps(fn)
    def create(*args: Any, **kwargs: Any) -> Pipeline:
        for_pipeline, for_function = _definition.split(fn, kwargs, SETTINGS)
        pipe = Pipeline(**{**pipeline_kwargs, **for_pipeline})
        define = functools.partial(converted(fn) if pipe._settings.enable_conditionals else fn, *args, **for_function)
        with pipe:
            result = define()
        records = list(pipe._builder.records)
        pipe.set_outputs(*_definition.returned(fn, result))
        _definition.trace_again(pipe, pipe._builder, records, define)
        return pipe

    create._is_pipeline_def = True  # type: ignore[attr-defined]
    return create


# DALI also has pipeline_def in a module `experimental`, which can be imported, or read as an attribute of this module.
experimental = ModuleType(f"{__name__}.experimental", "DALI's older place of pipeline_def.")
experimental.pipeline_def = pipeline_def  # type: ignore[attr-defined]
sys.modules[experimental.__name__] = experimental


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
