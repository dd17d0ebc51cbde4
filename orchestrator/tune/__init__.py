"""The search for kernel configurations: space, filters, compilers, measurements, and the row that comes out.

An extra (`orchestrator[tune]`): only `cli` imports it. Kernels and devices are the workspace's business: three programs
in its `benchmarks/tune/` say what may be varied, compile it and measure it, each in a process of its own.
"""
