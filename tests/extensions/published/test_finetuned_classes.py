"""A classifier on a small published BERT, GPT-2, BART or T5: trained, scored, predicted with,
exported, read back."""

import json

import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from clozeline.extensions.evaluation.commands.evaluate import EvaluateOptions, score_task
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.extensions.published.commands.import_model import main as import_main
from clozeline.extensions.tasks.commands import predict
from clozeline.extensions.tasks.task_run import open_task_run, set_rows
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.tasks.task_runs import start
from tests.matrices import mark_slow_but
from tests.pipeline.task_files import SPECIALS, WORDS, make_sets, write_vocabulary

BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 64} | {
    f"{side}_{key}": size
    for side in ("encoder", "decoder")
    for key, size in (("attention_heads", 2), ("ffn_dim", 48))
}
BODIES = {
    "bert": (
        "Bert",
        "ForMaskedLM",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 48,
        },
        1e-9,
    ),
    "gpt1": (
        "GPT2",
        "LMHeadModel",
        {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64},
        1e-9,
    ),
    "bart": ("Bart", "ForConditionalGeneration", BART, 1e-9),
    "t5": (
        "T5",
        "ForConditionalGeneration",
        {"d_model": 32, "num_layers": 2, "num_heads": 2, "d_kv": 16, "d_ff": 48},
        1e-5,
    ),
}
"""By frame: the class, its sizes, and how close its scores are in fp64; T5's norms are fp32 there
too."""


@pytest.mark.parametrize("frame", mark_slow_but(["t5"], BODIES))
def test_a_classifier(one_rank, tmp_path, frame, capsys):
    """Special tokens that the published tokenizer lacks get rows of the table.

    GPT also trains its lm on the rows.
    """
    # a published body with random weights, and the sets that its tokenizer makes
    stem, end, sizes, close = BODIES[frame]
    body = getattr(transformers, f"{stem}{end}")
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    torch.manual_seed(1)
    body(body.config_class(vocab_size=len(SPECIALS + WORDS), **ids, **sizes)).save_pretrained(
        tmp_path / "theirs"
    )
    write_vocabulary(tmp_path / "theirs")
    (tmp_path / "theirs/tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')

    assert import_main([f"{tmp_path}/theirs", f"{tmp_path}/body"]) == 0

    sets = make_sets(
        tmp_path, f"tokenizer.path={tmp_path}/body", f"tasks.frame={frame}", "tokenizer.add=true"
    )
    # the run, which learns more than the most frequent class
    config = tmp_path / "train.yaml"
    run = tmp_path / "run"
    lm = ", lm: 0.5" if frame == "gpt1" else ""
    config.write_text(
        f"{{model: {{init_from: {tmp_path}/body, heads: {{classification: {{hidden: "
        f"auto}}{lm}}}}}, steps: 60, data: {{shards: {sets}/train, global_batch: 16, micro_batch: "
        f"8, lanes: 4}}, output: {run}, optimizer: {{name: adamw, learning_rate: 0.01}}, schedule: "
        "{name: constant}, log: {tensorboard: false}}"
    )

    assert one_rank.run(start, config) == [0]

    scores = json.loads(score_task(EvaluateOptions(run=run))[0])

    assert scores["metrics"]["accuracy"] > scores["baselines"]["majority"]["accuracy"] + 0.2
    # the class of transformers, which reads the same rows, whatever the padding
    assert export([str(run), f"{tmp_path}/out-model", "head=classification"]) == 0

    if frame == "bert":  # nothing is added, so that the publisher's files are written back
        assert (tmp_path / "out-model/vocab.txt").read_bytes() == (
            tmp_path / "theirs/vocab.txt"
        ).read_bytes()

    assert "30 training rows compared, all of them complete" in capsys.readouterr().out

    theirs = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "out-model", dtype=torch.float64
    ).eval()

    assert type(theirs).__name__ == f"{stem}ForSequenceClassification"

    opened = open_task_run(run, "dev")
    _, tensors = opened.task.forward(set_rows(opened.shards))
    ids = tensors["input_ids"]
    mask = torch.arange(ids.shape[1]) < tensors["lengths"][:, None]
    again = build_checkpoint(read_checkpoint(tmp_path / "out-model"))

    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask.long()).logits
        for model in (opened.trained.model, again):
            assert (model.double().logits(tensors)["classification"] - expected).abs().max() < close
    # predictions for texts, as its tokenizer writes them
    assert (
        predict.main([str(run), f"input={tmp_path}/files/dev.tsv", f"output={tmp_path}/p.jsonl"])
        == 0
    )

    found = [json.loads(line)["label"] for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    texts = [
        line.split("\t")[0] for line in (tmp_path / "files/dev.tsv").read_text().splitlines()[1:]
    ]
    batch = AutoTokenizer.from_pretrained(tmp_path / "out-model")(
        texts, padding=True, return_tensors="pt"
    )

    with torch.no_grad():
        chosen = theirs(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask
        ).logits.argmax(-1)

    assert found == [theirs.config.id2label[number] for number in chosen.tolist()]
