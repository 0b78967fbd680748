# SPDX-License-Identifier: Apache-2.0
"""Runs DALI in a separate process, because some arguments crash or hang it. Any crash of the main process is then Stoker's fault."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from graph_program import Program, Refused, run
from harness import Output, library

SECONDS = 60


class Died(Exception):
    """DALI's process ended, or did not answer."""


class Reference:
    """Runs programs like graph_program.run, but in a separate process with DALI. Raises Died if that process crashes or hangs; the next call starts another."""

    def __init__(self) -> None:
        self._process: Any = None

    def run(self, program: Program, outputs: Sequence[str] = ()) -> dict[str, Output]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        try:
            pickle.dump((program, list(outputs)), self._process.stdin)
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], SECONDS)[0]:
                raise EOFError
            names, answer = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            raise Died from None
        if isinstance(answer, str):
            raise Refused(answer)
        for step, named in zip(program.steps, names, strict=True):
            step.outputs = named
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _serve() -> None:
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps DALI's output out of the answers
    with contextlib.suppress(EOFError):
        while True:
            program, outputs = pickle.load(sys.stdin.buffer)
            try:
                answer: Any = run(library("nvidia.dali"), program, outputs)
            except Refused as refused:
                answer = str(refused)
            pickle.dump(([s.outputs for s in program.steps], answer), answers)
            answers.flush()


if __name__ == "__main__":
    _serve()
