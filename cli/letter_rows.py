# SPDX-License-Identifier: Apache-2.0
"""Writes the font of the Python package (python/stoker/_advise/glyphs.py) as C string literals, which cli/letters.c includes. usage: letter_rows.py GLYPHS"""

import runpy
import sys

WIDTH = 120
rows = runpy.run_path(sys.argv[1])["_ROWS"]
for start in range(0, len(rows), WIDTH):
    print(f'\t"{rows[start : start + WIDTH]}"')
