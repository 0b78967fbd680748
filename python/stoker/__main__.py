# SPDX-License-Identifier: Apache-2.0
"""The command `stoker` of an installed wheel, also as `python -m stoker`. It starts the C program in the package.

Only `stoker inspect` of Parquet files runs in Python, because pyarrow reads them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "inspect" and sys.argv[2].partition("?")[0].endswith((".parquet", ".pq")):
        from stoker.loader._table_inspect import asked
        from stoker.loader._table_inspect import main as inspect_tables

        paths = asked(sys.argv[1:])
        if paths is not None:
            return inspect_tables(paths, "--json" in sys.argv)
    program = Path(__file__).with_name("_bin") / "stoker"
    if not program.exists():
        print(f"stoker: the command is not part of this installation ({program} is missing)", file=sys.stderr)
        return 127
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
