"""A classifier on a small published decoder or encoder-decoder: trained, scored, predicted with, exported, read back."""

import json

import pytest
import torch
import transformers

from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from clozeline.tools.models.export_model import main as export
from clozeline.tools.models.import_model import main as import_main
from clozeline.tools.runs import predict
from clozeline.tools.runs.evaluate import EvaluateOptions, evaluate_run
from clozeline.tools.runs.evaluation.task_run import open_task_run, set_rows
from tests.pipeline.task_files import SPECIALS, WORDS, make_sets, write_vocabulary
from tests.tools.runs.evaluation.task_runs import start

ROWS = len(SPECIALS) + len(WORDS)
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
LLAMA = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 64}
BART |= {
    f"{side}_{key}": size for side in ("encoder", "decoder") for key, size in (("attention_heads", 2), ("ffn_dim", 48))
}
T5 = {"d_model": 32, "num_layers": 2, "num_heads": 2, "d_kv": 16, "d_ff": 48}
BODIES = {
    "gpt1": ("GPT2LMHeadModel", GPT2), "gpt": ("LlamaForCausalLM", LLAMA),
    "bart": ("BartForConditionalGeneration", BART), "t5": ("T5ForConditionalGeneration", T5),
}  # fmt: skip
"""By frame."""


@pytest.mark.parametrize("frame", BODIES)
def test_a_classifier(one_rank, tmp_path, frame):
    name, sizes = BODIES[frame]
    torch.manual_seed(1)
    body = getattr(transformers, name)
    body(body.config_class(vocab_size=ROWS, pad_token_id=0, **sizes)).save_pretrained(tmp_path / "theirs")
    write_vocabulary(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    assert import_main([str(tmp_path / "theirs"), str(tmp_path / "body")]) == 0
    sets = make_sets(tmp_path, f"tokenizer.path={tmp_path}/body", f"tasks.frame={frame}", "tokenizer.add=true")
    config = tmp_path / "train.yaml"
    config.write_text(
        f"{{model: {{init_from: {tmp_path}/body, heads: {{classification: {{hidden: auto}}}}}}, steps: 60,"
        f" data: {{shards: {sets}/train, global_batch: 16, micro_batch: 8, lanes: 4}}, output: {tmp_path}/run,"
        " optimizer: {name: adamw, learning_rate: 0.01}, schedule: {name: constant}, log: {tensorboard: false}}"
    )
    assert one_rank.run(start, config) == [0]
    scores = json.loads(evaluate_run(tmp_path / "run", EvaluateOptions()))
    print(scores)
    assert scores["metrics"]["accuracy"] > scores["baselines"]["majority"]["accuracy"] + 0.2
    assert predict.main([str(tmp_path / "run"), f"input={tmp_path}/files/dev.tsv", f"output={tmp_path}/p.jsonl"]) == 0
    assert export([str(tmp_path / "run"), str(tmp_path / "exported")]) == 0
    opened = open_task_run(tmp_path / "run", "dev")
    ours, tensors = opened.task.forward(set_rows(opened.shards))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "exported", dtype=torch.float64
    ).eval()
    print(type(theirs), theirs.config)
    ids = tensors["input_ids"]
    mask = torch.arange(ids.shape[1]) < tensors["lengths"][:, None]
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask.long()).logits
        again = build_checkpoint(read_checkpoint(tmp_path / "exported")).double()
        mine = opened.trained.model.double().logits(tensors)["classification"]
        back = again.logits(tensors)["classification"]
    print((mine - expected).abs().max(), (back - expected).abs().max())
