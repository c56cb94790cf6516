"""Record datatrove's verdicts on the tests' documents.

    python -m tests.pipeline.clean.filters.record_datatrove PEER

PEER is the interpreter of an environment with datatrove==0.10.1, 'xxhash<4', spacy==3.8.18, tokenizers and regex. It
runs this file as a script, which then imports nothing of the project.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("datatrove_verdicts.json")


def answer(texts: list[str]) -> dict[str, Any]:
    """Return per filter the reason to reject each text and the text after it, and the words of each chunk of them."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import (
        c4_filters,
        fineweb_quality_filter,
        gopher_quality_filter,
        gopher_repetition_filter,
    )
    from datatrove.utils.text import split_into_words

    filters: dict[str, Any] = {
        "gopher_quality": gopher_quality_filter.GopherQualityFilter(),
        "c4_quality": c4_filters.C4QualityFilter(),
        "gopher_repetition": gopher_repetition_filter.GopherRepetitionFilter(),
        "fineweb_quality": fineweb_quality_filter.FineWebQualityFilter(),
    }
    verdicts: dict[str, list[tuple[str, str]]] = {name: [] for name in filters}
    for name, step in filters.items():
        for text in texts:
            document = Document(text=text, id="")
            kept = step.filter(document)
            verdicts[name].append(("" if kept is True else kept[1], document.text))
    chunks = sorted({chunk for text in texts for chunk in text.split() if len(chunk) < 100})
    return {"verdicts": verdicts, "tokens": {chunk: split_into_words(chunk, "eng") for chunk in chunks}}


def record(python: str) -> None:
    """Ask the peer, and write its answers."""
    import xxhash

    from tests.pipeline.clean.filters.documents import digest, documents

    texts = documents(400)
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, __file__], input=json.dumps(texts), stdout=subprocess.PIPE, text=True, env=settings, check=True
    )
    found = json.loads(done.stdout)
    verdicts = {
        name: [
            [reason, xxhash.xxh64_hexdigest(" ".join(left.split())) if name == "c4_quality" and not reason else ""]
            for reason, left in answers
        ]
        for name, answers in found["verdicts"].items()
    }
    command = "python -m tests.pipeline.clean.filters.record_datatrove PEER"
    content = {"command": command, "documents": digest(texts), "verdicts": verdicts, "tokens": found["tokens"]}
    FILE.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record(sys.argv[1])
    else:
        json.dump(answer(json.load(sys.stdin)), sys.stdout)
