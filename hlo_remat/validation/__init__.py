# SPDX-License-Identifier: Apache-2.0
"""A proof that a rewritten module computes what it did before: translation validation."""
