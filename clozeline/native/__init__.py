"""Compiled inner loops, optional.

Without them, numpy gives the same bytes, slower (docs/decisions/0008).
"""
