"""Values of keys of objectives for which their type alone says none, and rows in which a key can be
seen."""

PARTS = [{"name": "masked_lm"}, {"name": "masked_lm", "label": "other", "weight": 2.0}]

ALWAYS = {
    "mixture": {"parts": PARTS},
    "text_to_text": {"tasks": [{"source": "gallery"}]},
}
"""Options without which an objective has nothing to do."""

FURTHER = {"causal_lm": [{"architecture": "encoder", "grouping": "document"}]}
"""Options of which a key needs several."""

ALWAYS_REFUSED = {
    "corrective_lm.cross_documents": "a crop may span several; the key is of all objectives over rows"
}

VARIED = ("grouping", "architecture", "attention")
"""Keys that decide which others are read: each of their values is a base of its own."""

VALUES = {
    "grouping": ["packed", "full_sentences", "document", "truncated"],
    "max_length": [60],
    "input_length": [60],
    "target_length": [20],
    "max_labels": [1],
    "suffix_rate": [0.3],
    "prediction_rate": [0.3],
    "mask_rate": [0.3],
    "mask_rate.uniform": [[0.1, 0.9]],
    "max_span_length": [2],
    "min_span_length": [2],
    "steps": [["token_deletion"]],
    "replacement": ["uniform", "shuffle"],
}
"""Values by key."""

NEUTRAL = {
    "min_length": "rows here are all longer: tests of refusals",
    "frequency_exponent": "reads counts of tokens of the stage encode: tests of masked LM",
    "language_tokens": "reads the languages of a recipe's sets: tests of composition",
    "reset_positions": "of batches, not of stored rows: tests of the stream",
    "tasks.source": "sources of a recipe: tests of text_to_text",
    "tasks.template": "needs a tokenizer: tests of text_to_text",
    "tasks.examples": "limits of sources in a recipe: tests of text_to_text",
    "tasks.weight": "of several sources: tests of text_to_text",
    "cap": "of several sources: tests of text_to_text",
    "temperature": "of several sources: tests of text_to_text",
    "parts.name": "another objective: tests of mixtures",
    "parts.label": "a name, by which a part draws: tests of mixtures",
    "parts.weight": "the share of a part: tests of mixtures",
}
"""Keys that these rows cannot show, with the reason."""
