"""The vendor's extension of torch."""
