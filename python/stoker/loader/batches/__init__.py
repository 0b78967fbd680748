# SPDX-License-Identifier: Apache-2.0
"""Makes what a Loader returns from a pipeline's outputs: fields (_finish.py, _pad.py), NamedTuples of tensors (_tuples.py), and what the user does with
finished batches (_mix.py, _collate.py)."""
