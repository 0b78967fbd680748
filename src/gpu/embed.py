# SPDX-License-Identifier: Apache-2.0
"""Writes the C file that embeds fat binaries: embed.py OUT.c TOOLKIT_VERSION "ARCHS" FATBIN..."""

import pathlib
import sys

out, toolkit, archs, *fatbins = sys.argv[1:]
lines = ["/* Made by src/gpu/embed.py. */", '#include "gpu/driver.h"']
rows = []
for path in map(pathlib.Path, fatbins):
    name = path.stem
    lines.append(
        f'__asm__(".section .rodata\\n.balign 64\\nstk__fatbin_{name}:\\n.incbin \\"{path.resolve()}\\"\\n'
        f'stk__fatbin_{name}_end:\\n.byte 0\\n.previous\\n");'
    )
    lines.append(f"extern const unsigned char stk__fatbin_{name}[], stk__fatbin_{name}_end[];")
    rows.append(f'\t{{"{name}", stk__fatbin_{name}, stk__fatbin_{name}_end}},')
rows.append("\t{NULL, NULL, NULL},")
major, _, minor = toolkit.partition(".")
lines += ["const struct stk_cuda_image stk__cuda_images[] = {", *rows, "};"]
lines.append(f"const int stk__cuda_image_count = {len(fatbins)};")
lines.append(f"const int stk__cuda_toolkit = {int(major or 0) * 1000 + int(minor or 0) * 10};")
lines.append(f'const char stk__cuda_archs[] = "{archs}";')
pathlib.Path(out).write_text("\n".join(lines) + "\n")
