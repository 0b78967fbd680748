# SPDX-License-Identifier: Apache-2.0
"""Links the package's files into the build tree and writes the stubs there: link_package.py SOURCE BUILD STAMP."""

import os
import subprocess
import sys
from pathlib import Path

SUFFIXES = {".py", ".pyi", ".typed"}


def link_tree(source: Path, build: Path) -> None:
    wanted = {p.relative_to(source) for p in source.rglob("*") if p.suffix in SUFFIXES or p.name == "py.typed"}
    for stale in [p for p in build.rglob("*") if p.is_symlink() and p.relative_to(build) not in wanted]:
        stale.unlink()
    for name in wanted:
        link = build / name
        if link.is_symlink() and link.resolve() == source / name:
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(source / name)


def main(source: str, build: str, stamp: str) -> int:
    link_tree(Path(source).resolve(), Path(build).resolve())
    env = {**os.environ, "PYTHONPATH": str(Path(build).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    # In a build with a sanitizer this interpreter cannot load the module, and the stubs are not made. Only type checkers need them.
    done = subprocess.run([sys.executable, "-m", "stoker.tools.stubs", build], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        print("stubs were not made:", done.stderr.strip().splitlines()[-1:], file=sys.stderr)
    Path(stamp).touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
