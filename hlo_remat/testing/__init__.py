# SPDX-License-Identifier: Apache-2.0
"""Random JAX programs and what must be true of each. Needs hypothesis, which the core doesn't."""
