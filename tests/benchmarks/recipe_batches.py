"""Micro-batches of each training recipe: rows of random tokens, corrupted by its objective and collated as in training.

The rows of a task have random answers: there is no stage that makes them without its texts.
"""

from dataclasses import asdict, replace

import numpy as np

from clozeline.pipeline.recipe import load_recipe
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS, Vocabulary
from clozeline.train.data.stream.collate import Collate
from tests.shard_sets import roles_of

VOCABULARY = 8000
_FIRST = len(SPECIALS) + SENTINELS + len(MODES)
"""First id with text."""
_ROWS = 16
_LONGEST = 56
_FRAMES = {
    "encoder": {},
    "decoder": {"predict_from": "previous"},
    "encoder_decoder": {"decoder_start": 0},
}


def vocabulary():
    """Return ids of special tokens, sentinels and modes, then of text; every third opens a word."""
    sentinels = tuple(range(len(SPECIALS), len(SPECIALS) + SENTINELS))
    modes = {mode: len(SPECIALS) + SENTINELS + index for index, mode in enumerate(MODES)}
    special, opens = np.arange(VOCABULARY) < _FIRST, np.arange(VOCABULARY) % 3 == 0
    specials = {name: index for index, name in enumerate(SPECIALS)}
    counts = np.ones(VOCABULARY, np.uint64)
    return Vocabulary(VOCABULARY, specials, sentinels, modes, special, opens, "f" * 64, token_counts=counts)


def recipe_batch(training, config, *, apart=False):
    """Return a micro-batch for a training; `apart`: of packed documents that are kept apart."""
    random = np.random.RandomState(0)
    corrupted = "corrupt" in training.pipeline_keys
    if corrupted and "classification" not in config.model.heads:
        columns, collate = _corrupted_rows(training.pipeline, config, random, apart)
    else:
        columns, collate = _task_rows(config, random)
    return collate(columns, np.ones(_ROWS, np.float32))


def _corrupted_rows(path, config, random, apart):
    """Return the columns of examples of the first objective of a recipe that serves the heads of its run."""
    recipe = load_recipe(path, ["output=unused"])
    # language tokens are pieces of a trained tokenizer
    changes = {"language_tokens": {}, **({"grouping": "packed", "cross_documents": False} if apart else {})}
    model, objectives = config.model, []
    for entry in recipe.config_of("corrupt"):
        options = entry.objective.options
        options = replace(options, **{name: value for name, value in changes.items() if hasattr(options, name)})
        objectives.append(replace(entry, objective=replace(entry.objective, options=options)).build(vocabulary()))
    fits = [
        objective
        for objective in objectives
        if set(model.targets.values()) <= set(objective.heads) and objective.architecture == model.architecture
    ]
    objective = fits[0]
    longest = min(getattr(objective.options, name, 128) for name in ("max_length", "input_length"))
    length = min(model.position.limit or longest, longest, _LONGEST) - 8  # with room for special tokens
    examples, skips = objective.corrupt(_samples(random, length), np.zeros(_ROWS, np.uint16), 1)
    assert not skips.any(), f"{path}: {objective.label} skips rows"
    frame = asdict(objective.frame)
    return examples.columns, Collate(
        objective.architecture,
        {feature.name: feature.role for feature in objective.features},
        objective.vocabulary.specials,
        decoder_start=frame["decoder_start"],
        padding_side=frame["padding_side"],
        predict_from=frame["predict_from"],
        restart_segments=getattr(objective.options, "reset_positions", False),
    )


def _samples(random, length):
    """Return rows of three documents in sentences of five tokens, with a partner and a translation."""
    sizes = random.randint(length // 2, length + 1, _ROWS)
    text = [random.randint(_FIRST, VOCABULARY, size) for size in sizes]
    columns = {
        "ids": Ragged.from_lists(text, np.uint16),
        "sentence_starts": Ragged.from_lists([np.arange(0, size, 5) for size in sizes], np.uint16),
        "document_starts": Ragged.from_lists([np.arange(0, size, 5)[::4] for size in sizes], np.uint16),
        "partner_ids": Ragged.from_lists([row[: len(row) // 2] for row in text], np.uint16),
        "partner_document_uid": Ragged.from_lists([[255] * 16] * _ROWS, np.uint8),
        "partner_offset": Ragged.from_lists([[0]] * _ROWS, np.uint32),
        "target_ids": Ragged.from_lists([row[: len(row) // 2] for row in text], np.uint16),
        "target_language": Ragged.from_lists([[1]] * _ROWS, np.uint8),
    }
    fixed = {
        "uid": random.randint(0, 1 << 62, _ROWS).astype(np.uint64),
        "variant": np.zeros(_ROWS, np.uint16),
        "document_uid": np.zeros((_ROWS, 16), np.uint8),
        "document_offset": np.zeros(_ROWS, np.uint32),
        "copy": np.zeros(_ROWS, np.uint8),
        "part": np.zeros(_ROWS, np.uint8),
        "language": np.zeros(_ROWS, np.uint8),
    }
    return Rows(fixed, columns)


def _task_rows(config, random):
    """Return the columns of a task for the heads of a run."""
    sizes = random.randint(16, 65, _ROWS)
    columns = {"input_ids": [random.randint(_FIRST, VOCABULARY, size) for size in sizes]}
    of_head = {
        "classification": {"label": [[index % 2] for index in range(_ROWS)]},
        "regression": {"target": [[0.5 * index] for index in range(_ROWS)], "segment_starts": [[0, 8]] * _ROWS},
        "tagging": {"tag_positions": [[1, 4, 9]] * _ROWS, "tags": [[0, 1, 2]] * _ROWS},
        "span": {"answer_span": [[3, 5]] * _ROWS, "answer_places": [range(2, size) for size in sizes]},
        "multiple_choice": {"choice": [[1]] * _ROWS, "choice_starts": [[0, 6], [0, 6, 11]] * (_ROWS // 2)},
        "similarity": {"input_ids_b": columns["input_ids"][::-1], "target": [[row / 16] for row in range(_ROWS)]},
        "lm": {"label_positions": [[3, 4, 5]] * _ROWS, "label_ids": [[_FIRST] * 3] * _ROWS},
    }  # fmt: skip
    for head in config.model.heads:
        seq2seq = head == "lm" and config.model.architecture == "encoder_decoder"
        columns |= {"target_ids": [row[:12] for row in columns["input_ids"]]} if seq2seq else of_head[head]
    kinds = {"target": np.float32}
    ragged = {name: Ragged.from_lists(list(rows), kinds.get(name, np.int64)) for name, rows in columns.items()}
    specials = {name: index for index, name in enumerate(SPECIALS)}
    architecture = config.model.architecture
    return ragged, Collate(architecture, roles_of(ragged), specials, **_FRAMES[architecture])
