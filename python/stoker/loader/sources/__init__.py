# SPDX-License-Identifier: Apache-2.0
"""What a Loader reads: a module for each kind of source, and what only sources use."""
