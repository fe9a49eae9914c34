"""Builders: each turns one source of texts into examples."""
