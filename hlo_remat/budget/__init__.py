# SPDX-License-Identifier: Apache-2.0
"""From a memory budget to a module that fits it: joins the planner, which knows graphs only, to the
passes and to XLA."""
