"""Filters: each returns a verdict per document, from shared text statistics; reports rely on the reason names."""

from clozeline.pipeline.clean.filters._filter import (
    DATA_FILE,
    KEEP,
    Filter,
    Measure,
    ThresholdFilter,
    Verdict,
    at_least,
    at_most,
    data_files,
)

__all__ = [
    "DATA_FILE", "KEEP", "Filter", "Measure", "ThresholdFilter", "Verdict", "at_least", "at_most", "data_files",
]  # fmt: skip
