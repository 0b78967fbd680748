# SPDX-License-Identifier: Apache-2.0
"""Plans the blocks of steps of a trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker import _numbers

_CACHED_SETTLE = 3  # number of steps at the beginning of each cached block that are not measured


@dataclass(frozen=True)
class Plan:
    """The length of a trial: `rounds` rounds, each of `steps` measured live steps and, unless `cached` is 0, as many on cached batches. warmup: steps at the
    beginning that are not measured. cached: number of batches in the cache."""

    steps: int
    rounds: int
    warmup: int
    cached: int

    def __post_init__(self) -> None:
        for name, least in (("steps", 2), ("rounds", 1), ("warmup", 0), ("cached", 0)):
            also = " (or True or False)" if name == "cached" else ""
            object.__setattr__(self, name, _numbers.whole(f"advise: {name}{also}", getattr(self, name), least))

    def blocks(self) -> list[Block]:
        """Returns the blocks, alternately live and cached. Each live block begins with steps that are not measured, in which the loader's queues fill again."""
        made = []
        for i in range(self.rounds):
            made.append(Block("live", self.steps, self.warmup if i == 0 else max(2, self.steps // 4)))
            if self.cached:
                made.append(Block("cached", self.steps, _CACHED_SETTLE))
        return made

    def length(self) -> int:
        """Returns the number of steps of the whole trial. A block skips `settle` steps, reads the counters at the end of one more, and records `wanted`
        steps."""
        return sum(b.settle + 1 + b.wanted for b in self.blocks())


@dataclass
class Step:
    """One step. asked, got, end: the times at which the loop asked for a batch, received it, and asked for the next one. They are marks of a clock, and become
    seconds at the block's end."""

    asked: Any
    got: Any
    end: Any
    host_wait: float  # seconds from the request for the batch to its arrival, by the host's clock
    own_cpu: float  # seconds of host_wait for which the loop's thread used the CPU

    @property
    def wait(self) -> float:
        return float(self.got - self.asked)

    @property
    def whole(self) -> float:
        return float(self.end - self.asked)


@dataclass
class Block:
    """Successive steps of one kind. The first `settle` steps are skipped, and `wanted` later ones are recorded."""

    kind: str  # "live" or "cached"
    wanted: int  # number of steps to record
    settle: int  # number of steps that add() has yet to skip
    taken: list[Step] = field(default_factory=list)
    usage: Any = None  # (machine.Usage, the loader's counters) during the recorded steps
    over: bool = False

    def add(self, step: Step) -> bool:
        """Records a step, except for the first `settle` ones. Returns True when all wanted steps are recorded."""
        if self.settle > 0:
            self.settle -= 1
        else:
            self.taken.append(step)
        return len(self.taken) == self.wanted

    @property
    def begun(self) -> bool:
        return self.settle == 0

    def mean(self) -> float:
        return max(1e-9, sum(s.whole for s in self.taken) / len(self.taken))
