"""What is asserted about a tree: each check with its YAML model and its judge; the house rules."""
