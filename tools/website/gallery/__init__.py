"""The gallery of objectives: sentences of words, corrupted by every objective of the registry, as a page."""
