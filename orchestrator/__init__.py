"""A declarative patch-pipeline orchestrator for vendor inference images."""
