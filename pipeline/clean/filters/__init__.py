"""Filters: each returns a verdict per document, from shared text statistics; reports rely on the reason names."""

from clozeline.pipeline.clean.filters._filter import KEEP, Filter, Verdict

__all__ = ["KEEP", "Filter", "Verdict"]
