"""Record datatrove's verdicts on the tests' documents.

    python -m tests.pipeline.clean.filters.documents | PEER tests/pipeline/clean/filters/record_datatrove.py

PEER is the interpreter of an environment with datatrove==0.10.1, 'xxhash<4', spacy==3.8.18,
tokenizers and regex. This file imports nothing of the project; it writes `datatrove_verdicts.json`.
"""

import json
import sys
from pathlib import Path

FILE = Path(__file__).with_name("datatrove_verdicts.json")


def answer(texts):
    """Return per filter the reason to reject each text and the hash of the words after it, and the
    tokens of chunks."""
    import xxhash
    from datatrove.data import Document
    from datatrove.pipeline.filters import (
        c4_filters,
        fineweb_quality_filter,
        gopher_quality_filter,
        gopher_repetition_filter,
    )
    from datatrove.utils.text import split_into_words

    filters = {
        "gopher_quality": gopher_quality_filter.GopherQualityFilter(),
        "c4_quality": c4_filters.C4QualityFilter(),
        "gopher_repetition": gopher_repetition_filter.GopherRepetitionFilter(),
        "fineweb_quality": fineweb_quality_filter.FineWebQualityFilter(),
    }

    verdicts = {name: [] for name in filters}

    for name, step in filters.items():
        for text in texts:
            document = Document(text=text, id="")
            kept = step.filter(document)
            edited = name == "c4_quality" and kept is True
            left = (
                xxhash.xxh64_hexdigest(" ".join(document.text.split()).encode()) if edited else ""
            )
            verdicts[name].append(("" if kept is True else kept[1], left))

    chunks = sorted({chunk for text in texts for chunk in text.split() if len(chunk) < 100})
    return {
        "verdicts": verdicts,
        "tokens": {chunk: split_into_words(chunk, "eng") for chunk in chunks},
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    content = {"documents": given["digest"], **answer(given["texts"])}
    FILE.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")
