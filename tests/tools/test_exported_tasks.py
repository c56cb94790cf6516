"""Fine-tuned runs as transformers loads them: the scores of the run, and the names of classes of the set."""

import numpy as np
import pytest
import torch
import transformers

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.tools.models.export_model import main
from clozeline.tools.runs.evaluation.task_run import set_rows
from clozeline.train.data.stream.collate import Collate
from clozeline.train.startup.open_run import open_run
from tests.pipeline.task_files import sentences, write_recipe, write_vocabulary
from tests.tools.runs.evaluation.task_runs import start
from tests.train.masked_set import write_config

BERT = {"type_vocab_size": 2, "norm_place": "post", "final_norm": False, "emb_norm": True, "eps": 1e-12}
HEADERS = {
    "sst2": ("sentence", "label"),
    "qnli": ("question", "sentence", "label"),
    "stsb": ("sentence1", "sentence2", "score"),
}
ANSWERS = {"sst2": ("0", "1"), "qnli": ("entailment", "not_entailment"), "stsb": ("1.5", "4.0")}
"""Cells of the files, by the number of the class; two numbers of the task of regression."""


def texts(task):
    """Texts of the held-out rows, and their answers: one sentence, or two of which the first tells it."""
    rows = sentences(60 + 21)
    pairs = zip(rows, rows[7:] + rows[:7], strict=True)
    return [((text,) if task == "sst2" else (text, other), label) for (text, label), (other, _) in pairs]


@pytest.fixture(scope="module", params=["qnli", "stsb", pytest.param("sst2", marks=pytest.mark.slow)])
def exported(request, one_rank, tmp_path_factory):
    """The task, its run and the exported folder."""
    task = request.param
    folder = tmp_path_factory.mktemp(task)
    files = folder / "files"
    files.mkdir()
    rows = texts(task)
    for name, part in (("train", rows[:60]), ("dev", rows[60:])):
        cells = ["\t".join((*words, ANSWERS[task][label])) for words, label in part]
        (files / f"{name}.tsv").write_text("\n".join(("\t".join(HEADERS[task]), *cells)) + "\n", encoding="utf-8")
    vocabulary, recipe = write_vocabulary(folder / "words"), write_recipe(folder, task)
    words = [f"input={files}", f"tokenizer.path={vocabulary}", f"output={folder / 'out'}"]
    assert run_pipeline(["--config", str(recipe), *words]) == 0
    head = {"regression" if task == "stsb" else "classification": {"hidden": "tanh"}}
    changes = {f"model__{key}": value for key, value in BERT.items()}
    config = write_config(
        folder / "train.yaml", folder / "out" / "tasks" / task / "train", folder / "run", model__heads=head,
        model__position={"maximum": 64}, model__init={"std": 0.3}, optimizer__learning_rate=0.001, steps=6,
        **changes,
    )  # fmt: skip
    assert one_rank.run(start, config) == [0]
    assert main([str(folder / "run"), str(folder / "hf")]) == 0
    return task, folder


def own_scores(folder, task):
    """Scores that the model of the run gives to each row of the held-out set, in its order."""
    trained, shards = open_run(folder / "run"), open_shards(folder / "out" / "tasks" / task / "dev")
    rows, collate = set_rows(shards), Collate.from_manifest(shards.manifest)
    columns = {name: rows.columns[name] for name in collate.columns}
    with torch.no_grad():
        (scores,) = trained.model.logits(collate(columns, np.ones(len(rows), np.float32))).values()
    return scores


def test_scores_are_those_of_the_run(exported):
    """The texts of the files, by the exported tokenizer, get the scores of the set's rows."""
    task, folder = exported
    model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder / "hf", output_loading_info=True
    )
    assert not any(report.values())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "hf")
    found = {}
    for words, _ in texts(task)[60:]:
        inputs = tokenizer(*words, return_tensors="pt")
        with torch.no_grad():
            found[tuple(inputs["input_ids"][0].tolist())] = model.eval()(**inputs).logits[0]
    rows = set_rows(open_shards(folder / "out" / "tasks" / task / "dev"))
    own = own_scores(folder, task).reshape(len(rows), -1)
    ids = [tuple(rows.columns["input_ids"].take(np.array([row])).values.tolist()) for row in range(len(rows))]
    assert set(ids) == found.keys()
    assert max((own[row] - found[key]).abs().max().item() for row, key in enumerate(ids)) < 1e-5
    assert own.std(0).min() > 1e-2  # rows differ
