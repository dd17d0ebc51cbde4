"""What becomes of a pipeline on another base: a verdict for each edit, with what changed and what would mend it."""
