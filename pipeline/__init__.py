"""The offline side: crawl, clean, deduplicate, tokenize, group, corrupt. Never imports torch."""

import importlib
import sys

if __name__ == "pipeline":  # `python -m pipeline`: the same module under its only name
    sys.modules[__name__] = importlib.import_module("clozeline.pipeline")
