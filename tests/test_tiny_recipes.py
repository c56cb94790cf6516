"""The small variant of each family's recipe learns from context within its few steps, on real
English text."""

import ast
import json
import math
import subprocess
import sys
import sysconfig
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
import yaml

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from tests.published.tables import TRAININGS
from tests.recipes import RECIPES, ROOT, trainings

DEMO = {
    "bert": "masked_lm",
    "bart": "bart",
    "deberta": "masked_lm",
    "distilbert": "masked_lm",
    "gpt": "causal_lm",
    "minilm": "masked_lm",
    "mobilebert": "masked_lm-20",
    "t5": "span_corruption",
    "tinybert": "masked_lm",
    "elmo": "causal_lm",
    "ulmfit": "causal_lm",
}
"""Recipes that train on a set of the demo's. masked_lm-20, to evaluate on, has half the labels and
more text."""
OWN = {
    "albert": "{name: sentence_order_prediction, label: albert, max_length: 128}",
    "modernbert": "{name: masked_lm, label: modernbert, max_length: 128, mask_rate: 0.3, cross_documents: "
    "false, "
    "separator: sep}",
    "spanbert": "{name: span_boundary, label: spanbert, max_length: 128}",
    "electra": "{name: replaced_token_detection, label: electra, max_length: 128, cross_documents: false}",
    "deberta_v3": "{name: replaced_token_detection, label: deberta_v3, max_length: 128, grouping: "
    "full_sentences, "
    "separator: sep}",
    "roberta": "{name: masked_lm, label: roberta, max_length: 128, grouping: full_sentences}",
    "unilm": "{name: mixture, label: unilm, parts: ["
    "{name: next_sentence_prediction, label: bidirectional, weight: 2, max_length: 128}, "
    "{name: next_sentence_prediction, label: prefix, weight: 2, attention: prefix, max_length: "
    "128}, "
    "{name: masked_lm, label: forward, attention: left_to_right, grouping: sentence_pair, "
    "max_length: 128}, "
    "{name: masked_lm, label: backward, attention: right_to_left, grouping: sentence_pair, "
    "max_length: 128}]}",
    "xlm": "{name: masked_lm, label: xlm, max_length: 128, grouping: document, languages: true}",
    "mbart": "{name: composition, label: mbart, max_length: 128, source_head: none, "
    "language_tokens: {en: <reserved_0>}, steps: [sentence_reordering, text_infilling]}",
    "mass": "{name: mass, label: mass, max_length: 128}",
    "ul2": "{name: mixture, label: ul2, parts: ["
    "{name: span_corruption, label: R, mode: R, input_length: 128, target_length: 128}, "
    "{name: span_corruption, label: X, mode: X, input_length: 128, noise_density: 0.5, "
    "target_length: 128}, "
    "{name: prefix_lm, label: S, mode: S, architecture: encoder_decoder, suffix_rate: 0.25, "
    "max_length: 128}]}",
    "rnn_search": "{name: span_corruption, label: rnn_search, input_length: 128}",
    "coco_lm": "{name: corrective_lm, label: coco_lm, max_length: 128}",
    "xlnet": "{name: permuted_lm, label: xlnet, max_length: 128, frame: xlnet}",
}
"""Recipes whose sets the demo does not make, and the entries that make small ones."""
TAUGHT = ("distilbert", "minilm", "tinybert")
"""Recipes whose small variant learns from a run of BERT's."""
SETS = DEMO | {recipe: recipe for recipe in OWN}
"""Recipes and the sets that their small variants train on."""
MARGIN = 0.2
MARGINS = {"albert": 0.03, "spanbert": 0.1, "roberta": 0.05}
"""Nats below the entropy that a recipe must reach; of those that have further to go within 300
steps, less."""
CHARACTERS = 4_000_000


def texts():
    """Python's help topics, and long docstrings of its library."""
    yield from topics.values()

    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if {"test", "tests", "idlelib", "site-packages"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):
            continue

        nodes = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]

        yield "\n\n".join(text for node in nodes if (text := ast.get_docstring(node)))


def write_texts(path, characters):
    """Write the longer ones of the texts, of so many characters, as lines of JSON."""
    with path.open("w", encoding="utf-8") as file:
        written = 0
        for text in texts():
            if len(text) > 500 and written < characters:
                file.write(json.dumps({"text": text}) + "\n")
                written += len(text)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The folder of the example sets that the demo's recipe makes of the texts, and of those of the
    other recipes."""
    folder = tmp_path_factory.mktemp("tiny")
    write_texts(folder / "python.jsonl", CHARACTERS)
    recipe = RECIPES / "demo" / "pipeline.yaml"
    entries = [
        *yaml.safe_load(recipe.read_text(encoding="utf-8"))["corrupt"],
        *map(yaml.safe_load, OWN.values()),
    ]
    overrides = [
        f"input={folder / 'python.jsonl'}",
        f"output={folder / 'out'}",
        "clean.filters=[]",
        "heldout.fraction=0.1",
        f"corrupt={json.dumps(entries)}",
    ]

    assert run_pipeline(["--config", str(recipe), *overrides]) == 0

    return folder / "out" / "corrupt"


def train(recipe, *words):
    subprocess.run(
        [sys.executable, "train/main.py", "--config", f"recipe:{recipe}", *words],
        cwd=ROOT,
        check=True,
    )


@pytest.fixture(scope="module")
def teacher(shards, tmp_path_factory):
    output = tmp_path_factory.mktemp("teacher") / "run"
    manifest = shards / SETS["bert"] / "train" / "manifest.json"
    train("bert", "variant=tiny", f"data.shards={manifest}", f"output={output}")
    return output


def test_every_family_has_a_small_variant():
    made = [one for one in trainings() if not one.recipe.startswith("tasks/")]
    families = {one.recipe for one in made} - {"demo", "baby"}  # small as they are
    tiny = {one.recipe for one in made if one.variant == "tiny"}
    # those of published trainings have tests of their own
    assert families == tiny
    assert tiny - {*TRAININGS} == SETS.keys()


def label_entropy(manifest):
    """Entropy in nats of the masked tokens of a set: the loss of a model that knows how frequent
    each one is."""
    counts = np.bincount(np.concatenate([row["label_ids"] for row in open_shards(manifest)]))
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


@pytest.mark.slow
@pytest.mark.parametrize("recipe", SETS)
def test_it_beats_the_unigram_entropy(recipe, shards, tmp_path, request, record_property):
    """Whatever a small variant predicts tokens from, context helps within 300 steps.

    A discriminator learns, too.
    """
    made = shards / SETS[recipe]
    words = [
        f"data.shards={made / 'train' / 'manifest.json'}",
        f"output={tmp_path / 'run'}",
        "evaluate.max_rows=null",
    ]

    words += [f"distil.teacher={request.getfixturevalue('teacher')}"] if recipe in TAUGHT else []
    for more in (*([["--dry-run"]] if recipe not in DEMO else []), ["variant=tiny"]):
        train(recipe, *words, *more)
    found = json.loads((tmp_path / "run" / "status.json").read_text(encoding="utf-8"))
    heldout = found["heldout"]["heldout"]

    assert found["step"] <= 300
    assert heldout["labels"] > 2000

    loss = heldout["loss"]
    entropy = heldout["unigram_entropy"]
    # other heads predict something else than tokens, or from less than the row
    if len(heldout["losses"]) > 1:
        loss = heldout["losses"]["masked_lm"]
        entropy = label_entropy(made / "heldout" / "manifest.json")

    record_property("loss and entropy", (loss, entropy))

    assert loss < entropy - MARGINS.get(recipe, MARGIN)

    if "token" in heldout["losses"]:
        replaced = heldout["figures"]["token/replaced"]
        guess = -replaced * math.log(replaced) - (1 - replaced) * math.log(1 - replaced)
        assert heldout["losses"]["token"] < guess - 0.005, (
            "the discriminator knows more than how many are replaced"
        )
