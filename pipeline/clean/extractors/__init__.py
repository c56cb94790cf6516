"""Extractors: HTML to the text that a person would read. They run in a child process (`_extraction.py`)."""

from clozeline.pipeline.clean.extractors._extraction import (
    BATCH,
    EXTRACTION_REASONS,
    Extracted,
    Extraction,
    shared_extraction,
)
from clozeline.pipeline.clean.extractors._extractor import Extractor, ExtractorOptions, Refused

__all__ = [
    "BATCH",
    "EXTRACTION_REASONS",
    "Extracted",
    "Extraction",
    "Extractor",
    "ExtractorOptions",
    "Refused",
    "shared_extraction",
]
