from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from clozeline import registry
from clozeline.pipeline.tokenize.tokenizers import trainable

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files"),
]


def texts(name: str, count: int) -> list[str]:
    with (Path(os.environ["CLOZELINE_DATA"]) / "text" / name).open("rb") as file:
        raw = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    return [json.loads(line)["text"][:200_000] for line in islice(raw.split("\n"), count) if line]


@pytest.mark.parametrize("name", trainable())
def test_real_texts_come_back(name, tmp_path):
    kind = registry.find("clozeline.pipeline.tokenize.tokenizers", name)
    tokenizer = kind.train(texts("en_peps.jsonl.zst", 100), kind.Options(size=4000), tmp_path)
    for source in ("en_peps", "en_eips", "novels_deu", "novels_gre", "novels_ukr"):
        found = texts(f"{source}.jsonl.zst", 300)
        for text, encoding in zip(found, tokenizer.encode(found), strict=True):
            known = encoding.ids[encoding.ids != tokenizer.vocabulary.specials["unk"]]
            assert not tokenizer.vocabulary.special[known].any()
            if not tokenizer.LOSS:
                assert tokenizer.decode(encoding.ids) == text
                assert len(known) == len(encoding.ids)
