# SPDX-License-Identifier: Apache-2.0
"""The console entry: hands over to the `stoker` command, a C program that the wheel carries."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "stoker")
    if not os.access(program, os.X_OK):
        sys.exit("stoker: the command is not in this installation; `make build` puts it into build/cli/stoker")
    os.execv(program, [program, *sys.argv[1:]])
