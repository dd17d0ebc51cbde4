"""Trees, diagnostics and digests: what every layer speaks."""
