"""The vendor's edition of xformers."""
