# SPDX-License-Identifier: Apache-2.0
"""Runs the tests on the sources of this tree with the extension modules of a build folder (STOKER_BUILD, by default build/)."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if os.environ.get("STOKER_BUILD") != "installed":
    sys.path.insert(0, str(ROOT / "python"))
    import stoker

    BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
    stoker.__path__ += [str(BUILD / "python"), str(BUILD / "python" / "stoker" / "batching")]
