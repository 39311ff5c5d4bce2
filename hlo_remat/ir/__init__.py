# SPDX-License-Identifier: Apache-2.0
"""Reading and copying programs; no decisions are made here."""
