"""Compiled inner loops, optional: without them numpy gives the same bytes, slower (docs/decisions/0008)."""
