#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults, one at a time, in a copy of the source tree, and fails unless the intended tests catch each fault.

A check that never failed proves nothing. Each fault in tools/faults.toml is a replacement in one source file and the tests that have to fail
because of it; the same tests have to pass without it. A fault whose text is no longer in its file is an error too, so that the list stays current.

usage: selfcheck.py [NAME...] [--list]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAULTS = ROOT / "tools" / "faults.toml"


@dataclass(frozen=True)
class Fault:
    name: str
    why: str  # the harm that the fault would do to users
    file: str
    find: str
    put: str
    c_tests: tuple[str, ...] = ()  # names of meson tests
    py_tests: tuple[str, ...] = ()  # pytest node ids
    commands: tuple[str, ...] = ()  # commands that are run in the tree and must fail

    def apply(self, tree: Path) -> str:
        """Plants the fault; returns the original text of the file."""
        path = tree / self.file
        text = path.read_text()
        if text.count(self.find) != 1:
            raise RuntimeError(f"{self.file} holds {text.count(self.find)} times: {self.find!r}")
        path.write_text(text.replace(self.find, self.put))
        return text


def load() -> list[Fault]:
    entries = tomllib.loads(FAULTS.read_text())["fault"]
    faults = []
    for e in entries:
        c_tests, py_tests, commands = (tuple(e.get(key, ())) for key in ("c_tests", "py_tests", "commands"))
        faults.append(Fault(e["name"], e["why"], e["file"], e["find"], e["put"], c_tests, py_tests, commands))
    return faults


class Tree:
    """A copy of the tree with its own build folder, in which rebuilding after a change takes seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.build = folder, folder / "build"
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        for name in filter(None, names.split("\n")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self.run("meson", "setup", str(self.build), "--buildtype=debugoptimized", "-Dtests=enabled", "-Dcuda=emulated", check=True)
        self.c_tests = {test["name"] for test in json.loads((self.build / "meson-info" / "intro-tests.json").read_text())}

    def run(self, *command: str, check: bool = False) -> subprocess.CompletedProcess:
        env = {**os.environ, "PYTHONPATH": str(self.build / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=check
        )

    def builds(self) -> bool:
        return self.run("ninja", "-C", str(self.build), "--quiet").returncode == 0

    def failing(self, fault: Fault) -> list[str]:
        """Returns those of the fault's tests and commands that fail. A test that hangs also counts as failing."""
        failed = []
        for name in fault.c_tests:
            if name not in self.c_tests:  # meson ignores unknown names
                raise RuntimeError(f"meson has no test {name}")
            if self.run("meson", "test", "-C", str(self.build), "--no-rebuild", name).returncode:
                failed.append(name)
        for node in fault.py_tests:
            done = self.run(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", node)
            if done.returncode not in (0, 1):  # code 4 also means that all tests of the file are skipped; the output says why
                raise RuntimeError(f"pytest cannot run {node} (code {done.returncode}):\n{done.stdout.rstrip()}")
            if done.returncode:
                failed.append(node)
        return failed + [c for c in fault.commands if self.run(*c.split()).returncode]


def check(tree: Tree, fault: Fault) -> str | None:
    """Returns None if all of the fault's tests fail with the fault and pass without it, else the reason why not."""
    wanted = list(fault.c_tests + fault.py_tests + fault.commands)
    if not wanted:
        return "names no test"
    already = tree.failing(fault)
    if already:
        return f"fails without the fault: {', '.join(already)}"
    before = fault.apply(tree.folder)
    try:
        if not tree.builds():
            return "does not compile with the fault"
        missed = [name for name in wanted if name not in tree.failing(fault)]
        return f"not caught by {', '.join(missed)}" if missed else None
    finally:
        (tree.folder / fault.file).write_text(before)
        tree.builds()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    a = parser.parse_args()
    faults = [f for f in load() if not a.names or f.name in a.names]
    if a.list:
        print("\n".join(f"{f.name:<28} {f.why}" for f in faults))
        return 0
    bad = 0
    with tempfile.TemporaryDirectory(prefix="stoker-selfcheck-") as scratch:
        tree = Tree(Path(scratch))
        if not tree.builds():
            raise SystemExit("selfcheck: the tree does not build")
        for fault in faults:
            start = time.perf_counter()
            try:
                problem = check(tree, fault)
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                problem = str(e)
            bad += problem is not None
            verdict = f"PROBLEM: {problem}" if problem else "caught"
            print(f"{fault.name:<28} {verdict} ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"{len(faults) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
