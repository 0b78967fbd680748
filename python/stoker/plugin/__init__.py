# SPDX-License-Identifier: Apache-2.0
"""Iterators that hand batches to a framework."""
