# SPDX-License-Identifier: Apache-2.0
"""Rematerialisation plans for graphs: plain Python, numpy and scipy, without JAX or MLIR."""

from hlo_remat.planner.bounds import StructuralMinimum as StructuralMinimum
from hlo_remat.planner.bounds import structural_minimum as structural_minimum
from hlo_remat.planner.formats import load as load
from hlo_remat.planner.frontier import frontier as frontier
from hlo_remat.planner.graph import Graph as Graph
from hlo_remat.planner.graph import Loop as Loop
from hlo_remat.planner.graph import Op as Op
from hlo_remat.planner.graph import Value as Value
from hlo_remat.planner.plan import Plan as Plan
from hlo_remat.planner.plan import Status as Status
from hlo_remat.planner.simulate import Execution as Execution
from hlo_remat.planner.simulate import Recompute as Recompute
from hlo_remat.planner.simulate import simulate as simulate
from hlo_remat.planner.solve import solve as solve
from hlo_remat.planner.tradeoff import Tradeoff as Tradeoff
from hlo_remat.planner.tradeoff import tradeoff as tradeoff
