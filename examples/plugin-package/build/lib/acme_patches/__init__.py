"""A transform and a check for orchestrator."""
