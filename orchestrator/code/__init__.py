"""Pure knowledge of Python source: positions, scopes, patterns, rewriting, symbols, folding."""
