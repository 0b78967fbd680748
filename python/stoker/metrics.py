# SPDX-License-Identifier: Apache-2.0
"""Counters of running loaders for Prometheus, OpenTelemetry, TensorBoard and Weights & Biases.

    exporter = stoker.metrics.prometheus({"train": train, "val": val}, port=9400)   # http://127.0.0.1:9400/metrics
    log = stoker.metrics.Log(train, SummaryWriter(), every=50)                       # then log.step(step) in the loop
    trainer = lightning.Trainer(callbacks=[stoker.metrics.lightning()])

Counters are read on request, from any thread. doc/metrics.md lists the names and units.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from stoker._numbers import whole
from stoker._signatures import suggests
from stoker.errors import InvalidArgumentError, StokerError, UnsupportedError

__all__ = ["METRICS", "Exporter", "Log", "Metric", "lightning", "opentelemetry", "prometheus", "read", "text"]


class Metric(NamedTuple):
    """A metric: its name without the prefix "stoker_", its kind, the counter from which it is computed, the factor from the counter's unit to the metric's, a
    help text, and labels."""

    name: str
    kind: str  # "counter" or "gauge"
    counter: str
    factor: float
    help: str
    labels: tuple[tuple[str, str], ...] = ()


_NS, _MS = 1e-9, 1e-3
METRICS: tuple[Metric, ...] = (
    Metric("batches_total", "counter", "batches_delivered", 1, "batches that the loop took"),
    Metric("wait_seconds_total", "counter", "wait_ns", _NS, "time that the loop waited for batches"),
    Metric("busy_seconds_total", "counter", "busy_ns", _NS, "work of all threads together"),
    Metric("source_seconds_total", "counter", "source_ns", _NS, "time in user sources and Datasets"),
    Metric("reads_total", "counter", "reads_started", 1, "files and objects that were read"),
    Metric("read_bytes_total", "counter", "bytes_read", 1, "bytes that were read"),
    Metric("reads_in_flight", "gauge", "reads_in_flight", 1, "reads that have begun and not ended"),
    Metric("decodes_total", "counter", "decodes", 1, "images that were decoded, on cores and GPU"),
    Metric("gpu_decodes_total", "counter", "gpu_decodes", 1, "those of them that the GPU decoded"),
    Metric("core_decodes_total", "counter", "core_decodes", 1, "files that the cores decoded for the GPU because they had time"),
    Metric("bad_samples_total", "counter", "bad_samples", 1, "samples that could not be read or decoded"),
    Metric("replaced_samples_total", "counter", "replaced", 1, "bad samples that another took the place of"),
    Metric("slots_out", "gauge", "slots_out", 1, "batches whose memory the loop holds"),
    Metric("slots", "gauge", "slots", 1, "batches for which there is memory"),
    Metric("batch_memory_bytes", "gauge", "slot_bytes", 1, "memory of batches"),
    Metric("read_memory_bytes", "gauge", "bytes_held", 1, "memory of bytes that were read and wait"),
    Metric("storage_requests_total", "counter", "storage_requests", 1, "requests to a store"),
    Metric("storage_bytes_total", "counter", "storage_bytes", 1, "bytes from a store"),
    Metric("storage_retries_total", "counter", "storage_retries", 1, "requests that were made again"),
    Metric("storage_hedges_total", "counter", "storage_hedges", 1, "second requests for what came late"),
    Metric("storage_requests_in_flight", "gauge", "storage_in_flight", 1, "requests that have begun and not ended"),
    Metric("storage_latency_seconds", "gauge", "storage_latency_ms", _MS, "time of a request", (("quantile", "0.5"),)),
    Metric("storage_latency_seconds", "gauge", "storage_latency_ms_p95", _MS, "time of a request", (("quantile", "0.95"),)),
    Metric("storage_latency_seconds", "gauge", "storage_latency_ms_p99", _MS, "time of a request", (("quantile", "0.99"),)),
    Metric("cache_hits_total", "counter", "cache_hits", 1, "objects that a cache on disk held"),
    Metric("cache_misses_total", "counter", "cache_misses", 1, "objects that a cache on disk did not hold"),
    Metric("cache_bytes", "gauge", "cache_bytes", 1, "bytes in a cache on disk"),
)


class _Loaders:
    """The loaders to measure, by name. Holds weak references, so that loaders can be freed."""

    def __init__(self, loaders: Any) -> None:
        named = loaders if isinstance(loaders, Mapping) else {"loader": loaders}
        if not named:
            raise InvalidArgumentError('metrics: no loaders; give one, or several by name: {"train": train, "val": val}')
        for name, loader in named.items():
            _check(name, loader)
        self._loaders = {str(name): weakref.ref(loader) for name, loader in named.items()}

    def read(self) -> dict[str, dict[str, float]]:
        """Returns the counters of each loader, as _together does; {} before the first batch and after the loader was closed."""
        return {name: _together(counters) for name, counters in self.read_each().items()}

    def read_each(self) -> dict[str, list[dict[str, float]]]:
        """Returns the counters of each pipeline of each loader."""
        found = {name: loader() for name, loader in self._loaders.items()}
        return {name: _counters(loader) for name, loader in found.items() if loader is not None}


def _check(name: Any, loader: Any) -> None:
    kind = type(loader)
    if kind.__name__ == "DataLoader":
        raise UnsupportedError(
            f"metrics: {name!r} is a DataLoader, whose pipelines have no counters that can be read from outside; a stoker.Loader has"
        )
    if not hasattr(kind, "counters") and not any(hasattr(loader, part) for part in ("_run", "_pipes", "loaders")):
        raise InvalidArgumentError(
            f"metrics: {name!r} is a {kind.__name__}, not a Loader, a mixture of Loaders, a Pipeline or an iterator of stoker.plugin"
        )


def _pipelines(loader: Any) -> list[Any]:
    """Returns the pipelines of a Loader, a mixture, a Pipeline or an iterator, with None in place of one that does not exist now. Robot data sets in a mixture
    have no pipelines."""
    many = getattr(loader, "_pipes", None)
    if isinstance(many, (list, tuple)):
        return list(many)
    sources = getattr(loader, "loaders", None)
    if isinstance(sources, (list, tuple)):
        return [pipe for source in sources for pipe in _pipelines(source)]
    run = getattr(loader, "_run", None)
    if run is None or not hasattr(run, "pipe"):
        return [loader] if hasattr(loader, "counters") else []
    return [run.pipe]


def _counters(loader: Any) -> list[dict[str, float]]:
    """Returns the counters of each pipeline of a loader; {} for a pipeline that does not exist now."""
    found = []
    for pipe in _pipelines(loader):
        try:
            found.append({} if pipe is None else pipe.counters())
        except RuntimeError:  # the pipeline was closed, perhaps at this moment
            found.append({})
    return found


def _together(counters: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the sums of several pipelines' counters, but the largest of their latencies."""
    total: dict[str, float] = {}
    for one in counters:
        for name, value in one.items():
            total[name] = max(total.get(name, 0.0), value) if "_latency_" in name else total.get(name, 0.0) + value
    return total


@suggests
def read(loaders: Any) -> dict[str, dict[str, float]]:
    """Returns a dict from loaders' names to dicts of their counters, with the library's names and units (_ns: nanoseconds, _ms: milliseconds).

    loaders: a Loader, a mixture of Loaders, a Pipeline or an iterator of stoker.plugin, which gets the name "loader", or a dict of several by name. The
    counters of a mixture are the sums over its sources.
    """
    return _Loaders(loaders).read()


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _exposition(found: Mapping[str, Mapping[str, float]]) -> str:
    lines: list[str] = []
    last = ""
    for metric in METRICS:
        rows = [(loader, counters[metric.counter]) for loader, counters in found.items() if metric.counter in counters]
        if not rows:
            continue
        if metric.name != last:
            lines += [f"# HELP stoker_{metric.name} {metric.help}", f"# TYPE stoker_{metric.name} {metric.kind}"]
            last = metric.name
        for loader, value in rows:
            labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in (("loader", loader), *metric.labels))
            lines.append(f"stoker_{metric.name}{{{labels}}} {value * metric.factor:.15g}")
    return "\n".join([*lines, ""])


@suggests
def text(loaders: Any) -> str:
    """Returns the metrics in Prometheus' text format, version 0.0.4. loaders: as for read()."""
    return _exposition(read(loaders))


_PATIENCE_S = 10  # seconds without a request after which a client's connection is closed and its thread ends


@suggests
class Exporter:
    """A server of metrics, which runs until close() or the end of a `with` block. url: the address for Prometheus. port: the port in `url`."""

    def __init__(self, loaders: Any, port: int, host: str) -> None:
        source = _Loaders(loaders)
        port = whole("metrics.prometheus: port", port, 0, 65535)

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE_S

            def do_GET(self) -> None:
                if self.path.partition("?")[0] not in ("/metrics", "/"):
                    self.send_error(404, "the metrics are at /metrics")
                    return
                body = _exposition(source.read()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Does nothing: by default, the server would print each request to stderr."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        try:
            self._server = Server((host, port), Handler)
        except (OSError, OverflowError) as e:
            raise InvalidArgumentError(f"metrics: port {port} of {host} cannot be used ({e}); port=0 takes a free one") from e
        self.port = int(self._server.server_address[1])
        self.url = f"http://{host}:{self.port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, name="stoker-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the server."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Exporter({self.url!r})"


@suggests
def prometheus(loaders: Any, port: int = 9400, host: str = "127.0.0.1") -> Exporter:
    """Serves the metrics for Prometheus from a separate thread, and returns the Exporter.

    loaders: as for read(). port: 0 selects a free one. host: the default allows only this machine; "0.0.0.0" opens the port to the network. Raises
    InvalidArgumentError if the port cannot be used.
    """
    return Exporter(loaders, port, host)


@suggests
def opentelemetry(loaders: Any, meter: Any = None) -> None:
    """Registers the metrics as observable instruments of an OpenTelemetry meter, such as stoker.read_bytes for stoker_read_bytes_total.

    loaders: as for read(). meter: an opentelemetry.metrics.Meter; None: that of the global provider. Raises UnsupportedError if the package
    opentelemetry-api is not installed.
    """
    try:
        from opentelemetry import metrics as api
    except ImportError as e:
        raise UnsupportedError("metrics: this needs the package opentelemetry-api (pip install opentelemetry-api)") from e
    source = _Loaders(loaders)
    meter = meter if meter is not None else api.get_meter("stoker")

    def observe(metrics: list[Metric]) -> Any:
        def callback(_: Any) -> Iterable[Any]:
            for loader, counters in source.read().items():
                for metric in metrics:
                    if metric.counter in counters:
                        yield api.Observation(counters[metric.counter] * metric.factor, {"loader": loader, **dict(metric.labels)})

        return callback

    for name in dict.fromkeys(metric.name for metric in METRICS):
        same = [metric for metric in METRICS if metric.name == name]
        make = meter.create_observable_counter if same[0].kind == "counter" else meter.create_observable_gauge
        make(f"stoker.{name.removesuffix('_total')}", callbacks=[observe(same)], description=same[0].help)


# ---- curves: TensorBoard, Weights & Biases, Lightning ----


def _scalars(each: Sequence[Mapping[str, float]], before: Sequence[Mapping[str, float]], seconds: float) -> dict[str, float]:
    """Returns the values that a Log writes for a period, by name (doc/metrics.md lists them). before, each: the counters of each pipeline at the beginning and
    at the end of the period. seconds: the period's duration."""
    now = _together(each)

    def grown(name: str) -> float:
        nothing: dict[str, float] = {}
        pairs = [(is_now.get(name, 0.0), was.get(name, 0.0)) for is_now, was in itertools.zip_longest(each, before, fillvalue=nothing)]
        return sum(is_now - was if is_now >= was else is_now for is_now, was in pairs)  # less than before: a new pipeline counts from 0

    values = {
        "batches_per_second": grown("batches_delivered") / seconds,
        "samples_per_second": grown("samples") / seconds,
        "wait_share": min(grown("wait_ns") * _NS / seconds, 1.0),
        "busy_cores": grown("busy_ns") * _NS / seconds,
        "read_bytes_per_second": grown("bytes_read") / seconds,
        "reads_in_flight": now.get("reads_in_flight", 0.0),
        "batch_memory_bytes": now.get("slot_bytes", 0.0),
        "bad_samples": now.get("bad_samples", 0.0),
    }
    if grown("decodes"):
        values["gpu_decode_share"] = grown("gpu_decodes") / grown("decodes")
    if "storage_latency_ms" in now:
        values["storage_latency_seconds"] = now["storage_latency_ms"] * _MS
        values["storage_retries"] = now.get("storage_retries", 0.0)
    return values


def _sink(to: Any) -> Callable[[dict[str, float], int], None]:
    """Returns a function of (values, step) that writes to a SummaryWriter, a run of Weights & Biases, a logger of Lightning, or a function."""
    if hasattr(to, "add_scalar"):

        def write(values: dict[str, float], step: int) -> None:
            for name, value in values.items():
                to.add_scalar(name, value, step)

        return write
    if hasattr(to, "log_metrics"):
        return lambda values, step: to.log_metrics(values, step)
    if callable(getattr(to, "log", None)):
        return lambda values, step: to.log(values, step=step)
    if callable(to):
        return lambda values, step: to(values, step)
    raise InvalidArgumentError(
        f"metrics.Log: a {type(to).__name__} cannot be written to; give a SummaryWriter (TensorBoard), a run of wandb.init(), a logger of Lightning, or a "
        "function of (values, step)"
    )


@suggests
class Log:
    """Writes the loaders' metrics to TensorBoard or Weights & Biases, as curves next to the loss.

        log = stoker.metrics.Log(train, SummaryWriter("runs/1"), every=50)
        for step, (images, labels) in enumerate(train):
            ...
            log.step(step)

    loaders: as for read(). to: a SummaryWriter, a run of wandb.init(), a logger of Lightning, or a function of (values, step); several in a list.
    every: number of calls of step() after which the values are written. prefix: the first part of the values' names, as in "prefix/batches_per_second", or
    "prefix/loader/batches_per_second" if `loaders` is a mapping. doc/metrics.md lists the names.
    """

    def __init__(self, loaders: Any, to: Any, every: int = 50, prefix: str = "stoker") -> None:
        self._source = _Loaders(loaders)
        self._named = isinstance(loaders, Mapping)
        self._sinks = [_sink(one) for one in (to if isinstance(to, (list, tuple)) else [to])]
        self._every = whole("metrics.Log: every", every, 1)
        self._prefix = prefix
        self._calls = 0
        self._before = self._source.read_each()
        self._since = time.monotonic()

    def step(self, step: int | None = None) -> dict[str, float]:
        """Counts a step of the loop. Returns the values if this call wrote them, else {}. step: the step to write; by default the number of calls."""
        self._calls += 1
        if self._calls % self._every:
            return {}
        now, at = self._source.read_each(), time.monotonic()
        seconds = max(at - self._since, 1e-9)
        made = {
            f"{self._prefix}/{loader}/{name}" if self._named else f"{self._prefix}/{name}": value
            for loader, counters in now.items()
            if any(counters)
            for name, value in _scalars(counters, self._before.get(loader, []), seconds).items()
        }
        self._before, self._since = now, at
        for write in self._sinks:
            write(made, self._calls if step is None else step)
        return made

    def __repr__(self) -> str:
        return f"Log(every={self._every}, prefix={self._prefix!r})"


def _callback_class() -> type:
    """Returns the class Callback of lightning.pytorch or pytorch_lightning; if both are installed, of the one that the program has imported. Raises
    UnsupportedError if neither is."""
    names = sorted(("lightning.pytorch", "pytorch_lightning"), key=lambda name: name not in sys.modules)
    for name in names:
        try:
            return importlib.import_module(name).Callback
        except ImportError:
            continue
    raise UnsupportedError("metrics: this needs the package lightning (pip install lightning)")


def _loader_in(given: Any) -> Any:
    """Returns the Loader in `given`, Lightning's train_dataloader; a dict of Loaders if `given` is a dict or a list; None if it contains no Loader."""
    if isinstance(given, Mapping):
        found = {str(name): _loader_in(one) for name, one in given.items()}
        return {name: one for name, one in found.items() if one is not None} or None
    if isinstance(given, (list, tuple)):
        return _loader_in(dict(enumerate(given)))
    inner = getattr(given, "loader", given)  # the Loader inside the result of as_dataloader()
    try:
        _check("train", inner)
    except StokerError:
        return None
    return inner


@suggests
def lightning(loaders: Any = None, every: int = 50) -> Any:
    """Returns a callback for Lightning's Trainer that writes a Log to the Trainer's loggers, such as TensorBoardLogger and WandbLogger.

    loaders: as for read(); None: the Loaders of the Trainer's train_dataloader. every: as for Log. Raises UnsupportedError if Lightning is not installed. The
    callback raises an error in fit() if the Trainer has no Loader of Stoker.
    """
    base: Any = _callback_class()
    every = whole("metrics.lightning: every", every, 1)

    class StokerMetrics(base):
        def __init__(self) -> None:
            super().__init__()
            self.log: Log | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            found = _loader_in(trainer.train_dataloader) if loaders is None else loaders
            if found is None:
                raise InvalidArgumentError(
                    "metrics.lightning: the Trainer's train_dataloader is not a stoker.Loader or its as_dataloader(): name them, as metrics.lightning(train)"
                )
            self.log = Log(found, trainer.loggers, every) if trainer.loggers else None

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            if self.log is not None:
                self.log.step(trainer.global_step)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            self.log = None

    return StokerMetrics()
