# SPDX-License-Identifier: Apache-2.0
"""Helpers for users who write processing steps, or who want to print the tensors of a running pipeline."""

from stoker.structured.internal_helpers import mini_parser
from stoker.structured.internal_helpers.check_type import check_type
from stoker.structured.internal_helpers.debug_helpers import print_tensor_op, print_tensor_size_op
from stoker.structured.internal_helpers.helper_functions import get_as_data_node, get_mapped

__all__ = ["check_type", "get_as_data_node", "get_mapped", "mini_parser", "print_tensor_op", "print_tensor_size_op"]
