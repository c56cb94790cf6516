import numpy as np

from clozeline.pipeline.rows import Rows

LENGTHS = [(31 * document) % 90 for document in range(150)]


MLM = [{"name": "masked_lm", "max_length": 34}]


def rows_of_shard(shards, shard):
    blocks = np.flatnonzero(shards.index.shard == shard).tolist()
    return Rows.concatenate([shards.read_block(block) for block in blocks])


def documents_of(shards):
    return {
        uid.tobytes()
        for shard in range(len(shards.manifest.shards))
        for uid in rows_of_shard(shards, shard).fixed["document_uid"]
    }


PAIRED = [
    *({"name": name, "max_length": 34} for name in ("next_sentence_prediction", "sentence_order_prediction")),
    {"name": "translation_lm", "max_length": 34},
    {"name": "text_to_text", "input_length": 34, "target_length": 60},
    {"name": "mixture", "parts": [{"name": "span_corruption", "label": str(length), "input_length": length}
                                  for length in (20, 40)]},
]  # fmt: skip
