#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions per image with callgrind, and compares them with the record in instructions.toml.

Times vary from run to run, but instruction counts do not, so a test can check the counts (test/python/test_instructions.py). The counts are valid for one
compiler and one kind of build, which the record names.

usage: instructions.py [--build DIR] [--record]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

RECORD = Path(__file__).resolve().with_suffix(".toml")
WORK = ("window", "whole", "pass")  # kinds of work that instructions.c does
LEVELS = ("avx2", "c")
TOLERANCE = 0.05
SLACK = 60  # further instructions by which a count may differ: for a call on ten numbers, TOLERANCE is less than the cost of one more check
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Instructions an image, counted by callgrind: `make instructions RECORD=1` writes this file, and a commit that changes it says why.
# window: a random crop's window; whole: the whole image; pass: decode for a random crop, resize to 224, mirror, normalise to float CHW.
# The others are single calls of operators on tensors (instructions_ops.c); what ends in -few works on 10 to 100 numbers.
"""

Counts = dict[str, dict[str, int]]


def environment(level: str) -> dict[str, str]:
    """Returns the environment variables for one SIMD level. They select Stoker's own JPEG decoder even if libjpeg-turbo would be faster."""
    kept = {k: v for k, v in os.environ.items() if k not in ("STOKER_CPU", "STOKER_JPEG", "LD_PRELOAD")}
    return {**kept, "STOKER_JPEG": "stoker", **({"STOKER_CPU": "c"} if level == "c" else {})}


def about(build: Path, level: str) -> dict:
    """Returns the facts that the program prints: the `build`, the `level` at which it really runs, and the number of `images`."""
    program = build / "bench" / "instructions"
    done = subprocess.run([program], env=environment(level), capture_output=True, text=True, check=True, timeout=60)
    return tomllib.loads(done.stdout)


def count(build: Path, level: str, work: str) -> int:
    """Returns the number of instructions per image, counted by callgrind while the program is inside stk_measure."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=stk_measure"]
    command += [str(build / "bench" / "instructions"), work]
    done = subprocess.run(command, env=environment(level), capture_output=True, text=True, timeout=300)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not collected:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return round(int(collected[1]) / tomllib.loads(done.stdout)["images"])


def count_ops(build: Path, level: str) -> dict[str, int]:
    """Returns, for each operator's case, the number of instructions of one call. Callgrind writes a file each time that stk_measure returns."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--toggle-collect=stk_measure"]
        command += ["--dump-after=stk_measure", str(build / "bench" / "instructions"), "ops"]
        done = subprocess.run(command, env=environment(level), capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
        names = tomllib.loads(done.stdout)["names"]
        profiles = [(Path(folder) / f"out.{i}").read_text() for i in range(1, len(names) + 1)]
    return {name: int(re.findall(r"^totals: (\d+)$", profile, re.M)[0]) for name, profile in zip(names, profiles, strict=True)}


def count_all(build: Path, level: str) -> dict[str, int]:
    images = {work: count(build, level, work) for work in WORK}
    return {**images, **count_ops(build, level)}


def levels(build: Path) -> list[str]:
    """Returns the SIMD levels that this machine can run."""
    return [level for level in LEVELS if about(build, level)["level"] == level]


def recorded() -> tuple[str, Counts]:
    """Returns the kind of build for which counts are recorded, and the counts."""
    record = tomllib.loads(RECORD.read_text())
    return record.pop("build"), record


def why_not(build: Path) -> str | None:
    """Returns the reason why counts on this machine cannot be compared with the record, or None if they can."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed"
    ours, theirs = about(build, "c")["build"], recorded()[0]
    return None if ours == theirs else f"this build is {ours}; the record is of {theirs}"


def complaints(found: dict[str, int], record: dict[str, int], level: str) -> list[str]:
    """Describes each count that differs from the record by more than TOLERANCE of the record plus SLACK."""
    return [
        f"{level}, {name}: {found[name]} instructions an image, {found[name] / record[name] - 1:+.1%} from the recorded {record[name]}"
        for name in record
        if abs(found[name] - record[name]) > TOLERANCE * record[name] + SLACK
    ]


def write(kind: str, counts: Counts) -> None:
    text = HEAD + f'build = "{kind}"\n'
    for level, found in counts.items():
        text += f"\n[{level}]\n" + "".join(f"{name} = {n}\n" for name, n in found.items())
    RECORD.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--record", action="store_true", help="write the record anew")
    a = parser.parse_args()
    counts = {level: count_all(a.build, level) for level in levels(a.build)}
    if a.record:
        if list(counts) != list(LEVELS):
            print(f"this machine cannot run all of {', '.join(LEVELS)}: nothing is recorded", file=sys.stderr)
            return 1
        write(about(a.build, "c")["build"], counts)
    kind, record = recorded()
    print(f"record: {kind}; here: {about(a.build, 'c')['build']}")
    for level, found in counts.items():
        for name, n in found.items():
            before = record[level].get(name, n)
            print(f"{level:5} {name:24} {n:10} instructions   recorded {before:10}   {n / before - 1:+.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
