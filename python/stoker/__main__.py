# SPDX-License-Identifier: Apache-2.0
"""The command `stoker` of an installed wheel, also as `python -m stoker`. It starts the C program in the package.

Only `stoker inspect` and `stoker pack` of tables, and `stoker inspect` of robot data sets, run in Python, because pyarrow reads them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _may_be_table(argument: str) -> bool:
    """Returns whether an argument of `stoker inspect` or `stoker pack` may name a table. This check is quick; the modules that decide take a while to
    import."""
    if argument.partition("?")[0].endswith((".parquet", ".pq")) or argument.startswith("hf://"):
        return True
    try:
        names = os.listdir(argument) if os.path.isdir(argument) else []
    except OSError:
        return False
    return any(name.endswith((".parquet", ".pq")) or "=" in name or name in ("state.json", "dataset_dict.json") for name in names)


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "inspect" and any(os.path.isfile(os.path.join(a, "meta", "info.json")) for a in sys.argv[2:]):
        from stoker.loader.sources import _robot_inspect

        folder = _robot_inspect.asked(sys.argv[2:])
        if folder is not None:
            return _robot_inspect.main(folder, "--json" in sys.argv or "-j" in sys.argv)
    if len(sys.argv) > 2 and sys.argv[1] == "inspect" and any(map(_may_be_table, sys.argv[2:])):
        from stoker.loader.sources._table_inspect import asked
        from stoker.loader.sources._table_inspect import main as inspect_tables

        paths = asked(sys.argv[1:])
        if paths is not None:
            return inspect_tables(paths, "--json" in sys.argv or "-j" in sys.argv)
    if len(sys.argv) > 2 and sys.argv[1] == "pack" and any(map(_may_be_table, sys.argv[2:])):
        from stoker.loader.sources import _table_pack

        if _table_pack.asked(sys.argv[2:]):
            return _table_pack.main(sys.argv[2:])
    program = Path(__file__).with_name("_bin") / "stoker"
    if not program.exists():
        print(f"stoker: the command is not part of this installation ({program} is missing)", file=sys.stderr)
        return 127
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
