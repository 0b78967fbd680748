# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker._ranks import Shard, resolve
from stoker._session import Session
from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _fields
from stoker.loader._order import Order
from stoker.loader.sources._source import Source
from stoker.pipeline import Pipeline


class PipelineSource(Source):
    """Takes batches from a Pipeline that the user made. The Pipeline has its own reader, settings and seed, goes through its epochs in order, and stays open
    when the Loader is closed."""

    has_indices = False
    owns_pipeline = False

    def __init__(self, pipe: Pipeline) -> None:
        if type(pipe).iter_setup is not Pipeline.iter_setup:
            raise InvalidArgumentError(
                f"Loader: {type(pipe).__name__} has a method iter_setup, which a Loader does not call: iterate over the Pipeline with "
                "stoker.plugin.pytorch.DALIGenericIterator, or feed it in the loop and leave iter_setup out"
            )
        self.pipe = pipe

    def shard(self, wanted: Any) -> Shard:
        """Returns the shard that the Pipeline's reader reads. wanted: the Loader's argument `shard`. Raises InvalidArgumentError if it names another shard.
        With "auto", prints a notice if there are several ranks and the reader reads all samples on each of them."""
        meta = self.pipe._started().meta()
        own = Shard(int(meta.get("shard_id", 0)), int(meta.get("number_of_shards", 1)))
        named = resolve(wanted)
        if named == own:
            return own
        if wanted != "auto":
            reads = f"its reader reads shard {own.rank} of {own.world}" if meta else "it has no reader, and its sources give what they give"
            advice = "give the reader" if meta else "let a function that makes the pipeline's sources divide their samples; for readers,"
            raise InvalidArgumentError(
                f"Loader: shard=({named.rank}, {named.world}) would have no effect on a Pipeline ({reads}): {advice} num_shards={named.world}, "
                f"shard_id={named.rank}"
            )
        if meta and own.world == 1:
            notice(
                f"the Pipeline's reader reads all samples on each of the {named.world} ranks: num_shards={named.world}, shard_id={named.rank} divide them"
            )
        return own

    def built(self, order: Order | None, build: Callable[[bool], Pipeline]) -> Pipeline:
        return self.pipe

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        return _fields.of_pipeline(names, len(self.pipe._started().outputs()))

    def steps(self) -> int:
        return int(self.pipe._started().meta().get("steps", 0))

    def batch_size(self, spec: Any) -> int:
        return self.pipe.batch_size

    def pipeline_seed(self) -> int:
        return self.pipe.seed

    def go_on_with(self, pipeline_seed: int) -> None:
        self.pipe._go_on_with_seed(pipeline_seed)

    def saved(self, spec: Any) -> dict[str, Any]:
        return {"pipeline_seed": self.pipe.seed}

    def check_loadable(self) -> None:
        if self.pipe._started().delivered:
            raise StateError("a state is loaded before the first batch of a pipeline; make a new one")

    def continued(self, state: dict[str, Any], session: Session) -> dict[str, Any]:
        return state

    def check_set_epoch(self) -> None:
        raise StateError(
            "set_epoch: the user's Pipeline goes through its epochs in order, and cannot begin one again or skip one: leave set_epoch out"
        )

    def __repr__(self) -> str:
        return "a Pipeline"
