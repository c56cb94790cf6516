"""Recipes of tasks, each on a small folder in the layout that its authors publish; and a recipe keeps its texts."""

import json
import re
from pydoc_data.topics import topics

import pytest
import tokenizers

from clozeline.configuration.config import config_file, validate
from clozeline.model.build import build_model
from clozeline.model.checkpoints import Checkpoint, build_heads_of_class, export_checkpoint
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tasks.readers import facts_of
from tests.pipeline.task_files import write_vocabulary
from tests.recipes import find_training, trainings

NLI = ("entailment", "neutral", "contradiction")
TRUTH = ("false", "true")
GLUE  = {
    "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\ta film\tone film\n0\t7\t9\tgood\tbad\n",
             ("0", "1")),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta film\tone film\t1\n1\t3\t4\tno\tplot\t0\n",
            ("0", "1")),
    "mnli": ("index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta film\ta plot\tneutral\tneutral\n"
             "1\tgood\tbad\tcontradiction\tcontradiction\n", NLI),
    "qnli": ("index\tquestion\tsentence\tlabel\n0\ta film\tone film\tentailment\n1\tno\tplot\tnot_entailment\n",
             ("entailment", "not_entailment")),
    "rte": ("index\tsentence1\tsentence2\tlabel\n0\ta film\tone\tentailment\n1\tno\tplot\tnot_entailment\n",
            ("entailment", "not_entailment")),
    "wnli": ("index\tsentence1\tsentence2\tlabel\n0\ta film\tone\t1\n1\tno\tplot\t0\n", ("0", "1")),
    "cola": ("gj04\t1\t\ta film with heart .\ngj04\t0\t*\tfilm a heart\n", ("0", "1")),
    "sst2": ("sentence\tlabel\na good film\t1\na dull plot\t0\n", ("0", "1")),
}  # fmt: skip
"""The text of a file, and the classes; the header of a file names more columns than are read."""
OBJECTS  = {
    "snli": ([{"gold_label": label, "sentence1": "a film", "sentence2": "plot"} for label in ("neutral", "entailment")],
             NLI),
    "boolq": ([{"question": "is it good", "passage": "a good film", "idx": 0, "label": True},
               {"question": "is it bad", "passage": "a good film", "idx": 1, "label": False}], TRUTH),
    "cb": ([{"premise": "a film", "hypothesis": "one", "label": "entailment", "idx": 0},
            {"premise": "no", "hypothesis": "plot", "label": "neutral", "idx": 1}],
           ("entailment", "contradiction", "neutral")),
    "wic": ([{"word": "film", "sentence1": "a film", "sentence2": "one film", "label": value, "idx": 0}
             for value in (True, False)], TRUTH),
    "wsc": ([{"text": "film one is good", "label": value, "idx": 0, "target": {
        "span1_text": "film", "span1_index": 0, "span2_text": "one", "span2_index": 1}} for value in (True, False)],
        TRUTH),
    "multirc": ([{"idx": 0, "passage": {"text": "good film", "questions": [{"question": "is it", "idx": 0, "answers": [
        {"text": "good", "idx": 0, "label": 1}, {"text": "bad", "label": 0}]}]}}], TRUTH),
    "copa": ([{"premise": "a film", "choice1": "good", "choice2": "bad", "question": question, "label": label, "idx": 0}
              for question, label in (("cause", 0), ("effect", 1))], ()),
    "record": ([{"idx": 0, "passage": {"text": "a good film .", "entities": [{"start": 7, "end": 10}]}, "qas": [
        {"query": "one @placeholder", "idx": 0, "answers": [{"start": 7, "end": 10, "text": "film"}]},
        {"query": "no @placeholder", "idx": 1, "answers": [{"start": 7, "end": 10, "text": "film"}]}]}], ()),
    "race_exams": ([{"article": "a good film", "question": "what is it", "options": ["film", "plot", "heart", "one"],
                     "answer": answer} for answer in "AD"], ()),
}  # fmt: skip


@pytest.mark.parametrize("name", [*GLUE, *OBJECTS])
def test_the_recipe_reads_the_official_layout(tmp_path, name):
    """Every row becomes an example of the head that the recipe of the training names."""
    files = tmp_path / "files"
    files.mkdir()
    if name in GLUE:
        text, labels = GLUE[name]
        matched = "_matched" if name == "mnli" else ""
        paths = {"train": files / "train.tsv", f"dev{matched}": files / f"dev{matched}.tsv"}
    else:
        rows, labels = OBJECTS[name]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        paths = {"train": files / "train.jsonl", "dev": files / "val.jsonl"}
    for path in paths.values():
        path.write_text(text, encoding="utf-8")
    words = [f"input={files}", f"tokenizer.path={write_vocabulary(tmp_path / 'words')}", f"output={tmp_path / 'out'}"]
    assert main(["--config", str(config_file(f"recipe:tasks/{name}", "pipeline.yaml")), *words]) == 0
    (folder,) = (tmp_path / "out" / "tasks").glob("*/train")
    head = ""
    for split in paths:
        manifest = open_shards(folder.with_name(split)).manifest
        facts = facts_of(manifest)
        assert facts is not None
        assert (manifest.totals.samples, dict(manifest.totals.skipped), facts.labels) == (2, {}, labels)
        head = facts.head
    training = find_training(f"tasks/{name}").keys
    assert head in training["model"]["heads"]
    assert "steps" in training


def test_the_demo_with_the_head_of_each_recipe_is_exported():
    """Heads of rows and of tokens that differ; a pair's vector and scores of similarity have no class."""
    tasks = [one.keys["model"]["heads"] for one in trainings() if one.recipe.startswith("tasks/")]
    specials = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    classes = set()
    for heads in {str(heads): heads for heads in tasks if "auto" in str(heads)}.values():
        body = find_training("demo").keys["model"]
        [(name, head)] = heads.items()
        named = {"labels": ["bad", "good"]} if name in ("classification", "tagging") else {}
        body["heads"] = {name: head | named}
        config = build_heads_of_class(validate(ModelConfig, body, "demo"), specials)
        weights = dict(build_model(config, 100, specials, seed=1).named_parameters())
        export = export_checkpoint(Checkpoint(config, 100, weights, specials, None, ()))
        classes |= set(export.config["architectures"])
    ends = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
    assert classes == {f"ModernBertFor{end}" for end in ends}


# Recipe texts ---------------------------------------------------------------------------------------------------------


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
