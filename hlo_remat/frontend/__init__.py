# SPDX-License-Identifier: Apache-2.0
"""From JAX functions to marked modules."""
