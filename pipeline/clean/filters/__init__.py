"""Filters: one verdict a document, from measures that all filters share. Reasons are names that reports rely on."""

from clozeline.pipeline.clean.filters._filter import KEEP, Filter, Verdict

__all__ = ["KEEP", "Filter", "Verdict"]
