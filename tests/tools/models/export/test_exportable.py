"""What an export says of a model, and the files next to its weights."""

import json
import subprocess
import sys

import pytest
import torch
import yaml

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.position import PositionConfig
from clozeline.tools.models.export.exportable import card_rows, exported_form
from clozeline.tools.models.export.model_card import model_card
from clozeline.tools.models.export.sentence_embeddings import check_pooling, write_modules
from clozeline.train.open_run import open_run
from tests.model.small_models import small_config
from tests.train.written_runs import write_run


def test_a_run_gives_masters_ids_and_facts(shard_sets, tmp_path):
    model = write_run(tmp_path, shard_sets, [3, 12], 2)
    found = exported_form(open_run(tmp_path))
    for name, parameter in model.named_parameters():
        assert torch.equal(found.tensors[name], parameter), name
    assert set(found.token_ids) >= {"pad_token_id", "mask_token_id"}
    assert [card_rows(open_run(tmp_path, step))["steps"] for step in (None, 3)] == ["12", "3"]


def test_given_facts_stay_in_their_places():
    more = {"languages": ["en", "de"], "mark": "[MASK]", "options": {"pooling": False}}
    text = model_card("a|b\nc", "AutoModel", 1, {"k": "x|y"}, licence='"mit": 1', **more)
    front = yaml.safe_load(text.split("---")[1])
    assert front["license"] == '"mit": 1'
    assert front["language"] == ["en", "de"]
    assert "# a\\|b c\n" in text
    assert "| k | x\\|y |" in text
    assert 'AutoTokenizer.from_pretrained("path/to/this/folder")' in text
    assert 'AutoModel.from_pretrained("path/to/this/folder", pooling=False)' in text
    assert "`[MASK]`, are ordinary letters" in text
    assert "tokenizer(text, split_special_tokens=True)" in text


def content(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_files_are_those_of_the_format(tmp_path, pooling):
    write_modules(tmp_path, pooling, small_config("encoder", position=PositionConfig(maximum=40)))
    assert content(tmp_path / "modules.json") == [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    assert content(tmp_path / "1_Pooling" / "config.json") == {
        "word_embedding_dimension": 24,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    assert content(tmp_path / "sentence_bert_config.json") == {"max_seq_length": 40, "do_lower_case": False}


@pytest.mark.parametrize(
    ("config", "encoder_alone", "tokenizer", "words"),
    [
        (small_config("decoder"), True, True, "expected a model with an encoder, got a decoder"),
        (small_config("encoder"), False, True, "add --parts encoder"),
        (small_config("encoder"), True, False, "needs its tokenizer"),
    ],
    ids=["decoder", "head", "no tokenizer"],
)
def test_models_that_cannot_be_pooled(config, encoder_alone, tokenizer, words):
    with pytest.raises(ConfigurationError, match=words):
        check_pooling(config, encoder_alone=encoder_alone, tokenizer=tokenizer)


LOAD = """
from clozeline.tools.models.export.quiet_transformers import import_transformers

transformers = import_transformers("a comparison")
config = transformers.BertConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
transformers.BertForMaskedLM(config).save_pretrained({folder!r})
transformers.BertForMaskedLM.from_pretrained({folder!r})
"""


def test_loading_a_model_prints_nothing(tmp_path):
    code = LOAD.format(folder=str(tmp_path / "model"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
