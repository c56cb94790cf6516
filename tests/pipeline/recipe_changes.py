"""Random changes of a recipe, one option of a stage at a time."""

from copy import deepcopy

RECIPE = """
corpus: histories
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 6000, shard_bytes: 30000}
clean: {language: null, filters: [{name: gopher_quality, words: [10, 100000]}]}
dedup: {exact: {key: text}, near: {verify: 0.7, ngram: 5}, lines: null}
train_tokenizer: {name: byte_bpe, size: 450}
encode: {extra: [], sentences: regex}
group: {}
corrupt:
  - {name: masked_lm, max_length: 64}
  - {name: causal_lm, max_length: 64}
  - {name: span_corruption, input_length: 64, container: tar}
  - {name: masked_lm, label: short, max_length: 32}
"""
MORE_OBJECTIVES = [
    {"name": "masked_lm", "label": "often", "max_length": 64, "mask_rate": 0.3},
    {"name": "causal_lm", "label": "long", "max_length": 96},
    {"name": "text_infilling", "max_length": 64},
    {"name": "masked_lm", "label": "twice", "max_length": 32, "variants": 2},
]


def change_option(recipe, random):
    """Change one option in place; return what was changed, for a message."""
    change = random.choice(
        [
            _change_documents,
            _change_near,
            _change_encoding,
            _change_objective,
            _change_objective,
            _change_objectives,
            _change_objectives,
        ]
    )
    return change(recipe, random)


def _change_documents(recipe, random):
    if random.random() < 0.6:
        limits = [random.choice([10, 30, 40]), 100_000]
        recipe["clean"]["filters"][0]["words"] = limits
        return f"words: {limits}"
    lines = None if recipe["dedup"]["lines"] else {"min_letters": 8}
    recipe["dedup"]["lines"] = lines
    return f"lines: {lines}"


def _change_near(recipe, random):
    changed = random.choice(
        [{"verify": 0.0}, {"verify": 0.5}, {"verify": 0.9}, {"ngram": 3}, {"ngram": 4}]
    )
    recipe["dedup"]["near"] |= changed
    return f"near: {changed}"


def _change_encoding(recipe, random):
    changed = random.choice([{"extra": ["license"]}, {"extra": []}, {"sentences": "lines"}])
    if changed == {"sentences": recipe["encode"]["sentences"]}:
        changed = {"sentences": "regex"}
    recipe["encode"] |= changed
    return f"encode: {changed}"


def _change_objective(recipe, random):
    entry = random.choice(recipe["corrupt"])
    length = "input_length" if entry["name"] == "span_corruption" else "max_length"
    changes = [{"variants": random.choice([1, 2, 3])}, {length: random.choice([32, 48, 64])}]
    changes.append({"label": f"label{random.randrange(1000)}"})
    if entry["name"] == "masked_lm":
        changes += [{"mask_rate": random.choice([0.1, 0.2, 0.4])}] * 2
    changed = random.choice(changes)
    before = label_of(entry)
    entry |= changed
    return f"{before}: {changed}"


def _change_objectives(recipe, random):
    objectives = recipe["corrupt"]
    kind = random.randrange(3)
    if kind == 0:
        random.shuffle(objectives)
    elif kind == 1 and len(objectives) > 2:
        objectives.remove(random.choice(objectives))
    else:
        known = [label_of(entry) for entry in objectives]
        more = [entry for entry in MORE_OBJECTIVES if label_of(entry) not in known]
        objectives += deepcopy(random.sample(more, min(len(more), 1)))
    return "objectives: " + ", ".join(label_of(entry) for entry in objectives)


def label_of(entry):
    """Return the label of an objective, which names its set."""
    return entry.get("label", entry["name"])
