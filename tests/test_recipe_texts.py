"""Recipes keep the texts that they are for."""

import json
import re
from pydoc_data.topics import topics

import tokenizers

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards


def sentences(count):
    """Different English sentences of 4 to 25 words, as tasks have them."""
    found = [" ".join(one.split()) for text in topics.values() for one in re.split(r"(?<=[.!?])\s", text)]
    short = [one for one in dict.fromkeys(found) if 4 <= len(one.split()) <= 25 and one.isascii()]
    return short[:count]


def test_the_recipe_of_a_domain_keeps_the_short_texts_of_a_task(tmp_path):
    """Texts of a task without their labels are single sentences, which filters for pages reject."""
    texts = sentences(120)
    rows = tmp_path / "task.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    published = tokenizers.ByteLevelBPETokenizer()
    published.train_from_iterator(texts, vocab_size=600)
    published.save(str(tmp_path / "tokenizer.json"))
    words = [f"input={rows}", f"tokenizer.path={tmp_path}/tokenizer.json", f"output={tmp_path / 'out'}"]
    assert run_pipeline(["--config", "recipe:tasks/domain", *words]) == 0
    stages = [json.loads((tmp_path / "out" / stage / "report.json").read_text()) for stage in ("clean", "dedup")]
    assert stages[0]["counts"]["documents_in"] == 120
    assert stages[1]["counts"]["documents_in"] == 120, "none is rejected"
    assert stages[1]["counts"]["documents_out"] >= 115
    assert len(open_shards(tmp_path / "out" / "corrupt" / "masked_lm" / "heldout")) > 0
