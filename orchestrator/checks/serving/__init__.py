"""The run configuration before any server starts: what it comes to, and the rules that it has to keep."""
