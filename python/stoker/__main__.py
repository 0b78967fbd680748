# SPDX-License-Identifier: Apache-2.0
"""The command `stoker` of an installed wheel, also as `python -m stoker`. It starts the C program in the package.

Only `stoker inspect` and `stoker pack` of tables, and `stoker inspect` of robot data sets, run in Python, because pyarrow reads them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stoker._files import named_path, without_query


def _may_be_table(argument: str) -> bool:
    """Returns whether an argument of `stoker inspect` or `stoker pack` may name a table. This check is quick; the modules that decide take a while to
    import."""
    endings = (".parquet", ".pq")
    if without_query(argument).endswith(endings) or argument.startswith("hf://"):
        return True
    try:
        names = os.listdir(argument) if os.path.isdir(argument) else []
    except OSError:
        return False
    return any(name.endswith((".parquet", ".pq")) or "=" in name or name in ("state.json", "dataset_dict.json") for name in names)


def _run() -> int:
    arguments = sys.argv[2:]
    names = list(map(named_path, arguments))
    if arguments and sys.argv[1] == "inspect" and any(os.path.isfile(os.path.join(a, "meta", "info.json")) for a in names):
        from stoker.loader.sources import _robot_inspect

        if (found := _robot_inspect.asked(arguments)) is not None:
            return _robot_inspect.main(*found)
    if arguments and sys.argv[1] == "inspect" and any(map(_may_be_table, names)):
        from stoker.loader.sources import _table_inspect

        if (tables := _table_inspect.asked(arguments)) is not None:
            return _table_inspect.main(*tables)
    if arguments and sys.argv[1] == "pack" and any(map(_may_be_table, names)):
        from stoker.loader.sources import _table_pack

        if _table_pack.asked(arguments):
            return _table_pack.main(arguments)
    program = Path(__file__).with_name("_bin") / "stoker"
    if not program.exists():
        print(f"stoker: the command is not part of this installation ({program} is missing)", file=sys.stderr)
        return 127
    os.execv(program, [str(program), *sys.argv[1:]])


def main() -> int:
    for fd, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):  # as in cli/main.c: no file that is opened later may become stdout
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)
    try:
        return _run()
    except KeyboardInterrupt:
        print("stoker: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
