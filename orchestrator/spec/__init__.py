"""What YAML says: documents with positions, target facts, edits."""
