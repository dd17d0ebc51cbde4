"""Reasoning parsers of the OpenAI server: they part what a model thinks from what it answers."""
