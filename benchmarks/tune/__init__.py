"""What `orchestrator tune` asks of this workspace: the space of configurations, their compilation and their speed.

Each is a program that reads JSON from standard input and prints JSON lines, so that none of them can end the search.
"""
