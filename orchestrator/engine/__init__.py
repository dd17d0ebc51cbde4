"""The whole pipeline: its model, its order, its plan, its lock, and the run over a tree."""
