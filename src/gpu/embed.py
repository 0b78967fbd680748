# SPDX-License-Identifier: Apache-2.0
"""Writes the C file that embeds the compressed images of the kernels: embed.py OUT.c TOOLKIT_VERSION "ARCHS" NAME.ARCH.cubin|NAME.ARCH.ptx..."""

import hashlib
import pathlib
import sys
import zlib

out, toolkit, archs, *images = sys.argv[1:]
lines = ["/* Made by src/gpu/embed.py. */", '#include "gpu/driver.h"']
rows = []
for i, path in enumerate(map(pathlib.Path, images)):
    name, arch, kind = path.name.split(".")
    data = path.read_bytes() + b"\0"  # a driver reads PTX as a string
    deflated = path.with_suffix(path.suffix + ".z")
    deflated.write_bytes(zlib.compress(data, 9))
    # The checksum is for compiler caches, which do not notice changes of a file that .incbin reads.
    lines.append(f"/* {path.name} {hashlib.sha256(data).hexdigest()} */")
    lines.append(
        f'__asm__(".section .rodata\\n.balign 64\\nstk__cuda_image_{i}:\\n.incbin \\"{deflated.resolve()}\\"\\n'
        f'stk__cuda_image_{i}_end:\\n.byte 0\\n.previous\\n");'
    )
    lines.append(f"extern const unsigned char stk__cuda_image_{i}[], stk__cuda_image_{i}_end[];")
    ptx = "true" if kind == "ptx" else "false"
    rows.append(f'\t{{"{name}", {arch}, {ptx}, {len(data)}, stk__cuda_image_{i}, stk__cuda_image_{i}_end}},')
rows.append("\t{0},")
major, _, minor = toolkit.partition(".")
lines += ["const struct stk_cuda_image stk__cuda_images[] = {", *rows, "};"]
lines.append(f"const int stk__cuda_image_count = {len(images)};")
lines.append(f"const int stk__cuda_toolkit = {int(major or 0) * 1000 + int(minor or 0) * 10};")
lines.append(f'const char stk__cuda_archs[] = "{archs}";')
pathlib.Path(out).write_text("\n".join(lines) + "\n")
