# SPDX-License-Identifier: Apache-2.0
"""Runs some random graphs in both libraries (`random_graphs.py` runs more), and checks that a difference is found, shrunk and printed."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import random_graphs
from graph_program import Program, Ref, Step
from harness import Batch, Output
from random_graphs import Maker, Tally, outcome, whole

SEED = 7


@pytest.fixture(scope="module", autouse=True)
def _end_dali() -> Iterator[None]:
    """Ends DALI's process, which runs the graphs of all tests of this module."""
    yield
    random_graphs.DALI.close()


@pytest.mark.parametrize("seed", range(SEED, SEED + 24))
def test_as_dali(seed: int) -> None:
    tally = Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        random_graphs.one(seed, tally)
    print(f"seed {seed}: {sum(tally.steps.values())} steps, {tally.refused} refused by both")
    assert not tally.findings, "\n\n".join(f"{key}\n{found[0].program.text()}" for key, found in tally.findings.items())


def test_a_seed_makes_the_same_graph() -> None:
    lines = [[maker.step().line() for _ in range(20)] for maker in (Maker(3), Maker(3))]
    assert lines[0] == lines[1] and len(set(lines[0])) > 10


def test_a_difference_is_found_shrunk_and_printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Makes Stoker's `flip` wrong for images of more than 4 rows. The graph that is printed has this operator and one sample, and runs as a program."""
    honest = random_graphs.ours_run

    def wrong(program: Program, outputs: tuple[str, ...] = ()) -> dict[str, Output]:
        made = honest(program, outputs)
        for step in program.steps:
            for o in (made[name] for name in step.outputs if name in made and step.op == "flip"):
                o.samples = [s + (len(s) > 4) for s in o.samples]
        return made

    monkeypatch.setattr(random_graphs, "ours_run", wrong)
    monkeypatch.setattr(random_graphs, "domains", lambda domains=random_graphs.domains: {"flip": domains()["flip"]})
    assert random_graphs.main(["--graphs", "3", "--seed", "1"]) == 1
    printed = capfd.readouterr().out
    text = printed.split("outputs = pipe.run()")[0]
    assert "fn.flip(" in text and "values" in text and "batch_size=1" in text
    found = next(line for line in text.splitlines() if "external_source" in line)
    assert found.count("[[") == 1 or "np.array" in found
    source = text[text.index("from stoker") :] + "outputs = pipe.run()\n"
    names: dict[str, object] = {}
    exec(source, names)  # the printed program has to run without an error
    assert names["outputs"]


def test_the_whole_is_compared_with_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    image = Batch([np.arange(60, dtype=np.uint8).reshape(4, 5, 3)], "HWC")
    flip, cast = Step("flip", [Ref("a")], {"horizontal": 1}, outputs=["v1"]), Step("crop", [Ref("v1")], {"crop": [2, 3]}, outputs=["v2"])
    program = Program({"a": image}, [flip, cast])
    values = outcome(Program({"a": image}, [flip])).made
    cropped = outcome(Program(random_graphs.batches(values), [cast]))
    assert cropped.kind == "" and cropped.equal
    values |= cropped.made
    assert whole(program, values, {"v1", "v2"}) == ""
    values["v2"].samples[0] = values["v2"].samples[0] + 1
    assert whole(program, values, {"v1", "v2"}) == "Stoker's v2 is another than the steps make: values"
    monkeypatch.setattr(random_graphs, "ours_run", lambda program, outputs=(): {name: values[name] for name in outputs})
    assert whole(program, values, {"v1", "v2"}) == "v2 of the whole: values"
    assert whole(program, values, {"v2"}) == ""


def test_a_library_that_dies_is_no_finding() -> None:
    reference = random_graphs.Reference()
    program = Program({"a": Batch([np.zeros(1)])}, [Step("end", [Ref("a")], expression="__import__('os')._exit(1)", outputs=["v"])])
    with pytest.raises(random_graphs.Died):
        reference.run(program)
    assert reference.run(Program(program.sources, [Step("copy", [Ref("a")], outputs=["v"])]))["v"].samples[0].shape == (1,)
    reference.close()


def test_the_program_runs_by_itself() -> None:
    script = Path(__file__).with_name("random_graphs.py")
    done = subprocess.run([sys.executable, script, "--graphs", "2", "--seed", "7"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 graphs from seed 7" in done.stdout
