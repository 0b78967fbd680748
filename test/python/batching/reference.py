# SPDX-License-Identifier: Apache-2.0
"""Reference implementations as plain loops over samples, for batches with one batch dim, followed by the indexed dim."""

import torch


def access(data, index, sizes, data_sizes, filler):
    out = torch.full((len(data), index.shape[1], *data.shape[2:]), filler, dtype=data.dtype, device=data.device)
    rows = []
    for b in range(len(data)):
        row = list(out[b].unbind(0))
        for j in range(int(sizes[b])):
            row[j] = data[b, resolve(index[b, j], data_sizes[b])]
        rows.append(torch.stack(row) if row else out[b])
    return torch.stack(rows)


def resolve(i, size):
    i, size = int(i), int(size)
    assert -size <= i < size
    return i + size if i < 0 else i


def write(source, source_index, source_sizes, target_index, sizes, base, base_sizes):
    rows = []
    for b in range(len(base)):
        row = list(base[b].unbind(0))
        for j in range(int(sizes[b])):
            s = j if source_index is None else resolve(source_index[b, j], source_sizes[b])
            row[resolve(target_index[b, j], base_sizes[b])] = source[b, s]
        rows.append(torch.stack(row) if row else base[b])
    return torch.stack(rows)
