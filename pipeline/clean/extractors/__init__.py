"""Extractors: get the readable text out of HTML, in a child process (`_extraction.py`)."""

from clozeline.pipeline.clean.extractors._extraction import (
    BATCH,
    EXTRACTION_REASONS,
    Extracted,
    Extraction,
    shared_extraction,
)
from clozeline.pipeline.clean.extractors._extractor import Extractor, ExtractorOptions

__all__ = [
    "BATCH", "EXTRACTION_REASONS", "Extracted", "Extraction", "Extractor", "ExtractorOptions",
    "shared_extraction",
]  # fmt: skip
