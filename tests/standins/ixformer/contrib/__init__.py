"""The vendor's editions of other libraries."""
