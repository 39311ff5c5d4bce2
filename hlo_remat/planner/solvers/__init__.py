# SPDX-License-Identifier: Apache-2.0
"""One solver a file, each after one paper."""
