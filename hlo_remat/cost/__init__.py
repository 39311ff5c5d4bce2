# SPDX-License-Identifier: Apache-2.0
"""What programs cost: bytes, FLOPs and seconds, as XLA runs them."""
