import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.tools.models.export.sentence_embeddings import check_pooling, write_modules
from tests.model.small_models import small_config


def content(path: Path) -> object:
    return json.loads(path.read_text())


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_files_are_those_of_the_format(tmp_path: Path, pooling: str) -> None:
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


def test_positions_without_a_table_have_no_limit(tmp_path: Path) -> None:
    write_modules(tmp_path, "mean", small_config("encoder_decoder"))
    assert content(tmp_path / "sentence_bert_config.json") == {"do_lower_case": False}


@pytest.mark.parametrize(
    ("config", "encoder_alone", "tokenizer", "words"),
    [
        (small_config("decoder"), True, True, "expected a model with an encoder, got a decoder"),
        (small_config("encoder"), False, True, "add --parts encoder"),
        (small_config("encoder"), True, False, "needs its tokenizer"),
    ],
    ids=["decoder", "head", "no tokenizer"],
)
def test_models_that_cannot_be_pooled(config: ModelConfig, encoder_alone: bool, tokenizer: bool, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_pooling(config, encoder_alone=encoder_alone, tokenizer=tokenizer)
