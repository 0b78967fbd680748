# SPDX-License-Identifier: Apache-2.0
"""The command `stoker` of an installed wheel, also as `python -m stoker`: starts the program in C that lies in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    program = Path(__file__).with_name("_bin") / "stoker"
    if not program.exists():
        print(f"stoker: the command is not part of this installation ({program} is missing)", file=sys.stderr)
        return 127
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
