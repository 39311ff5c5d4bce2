// RUN: hlo-remat-opt --version | FileCheck %s

// CHECK: hlo-remat-opt {{[0-9.]+}} (jax {{[0-9.]+}}, jaxlib {{[0-9.]+}}, StableHLO {{[0-9.]+}})
