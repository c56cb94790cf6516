"""Write the files that let sentence-transformers load an exported encoder as an embedding model."""

from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.files import publish_json
from clozeline.model.configuration.model_config import ModelConfig

POOLINGS: Final = ("mean", "cls")
_MODULES: Final = (("", "Transformer"), ("1_Pooling", "Pooling"))


def check_pooling(config: ModelConfig, *, encoder_alone: bool, tokenizer: bool) -> None:
    """Refuse a model that cannot be pooled: without an encoder, exported with its head, or without a tokenizer."""
    if config.architecture == "decoder":
        later = "whose positions do not see later tokens"
        raise ConfigurationError(f"pooling: expected a model with an encoder, got a decoder, {later}")
    if not encoder_alone:
        raise ConfigurationError("pooling: embeddings are read from the encoder alone; add parts=encoder")
    if not tokenizer:
        raise ConfigurationError("pooling: a model of sentence embeddings needs its tokenizer, and none was found")


def write_modules(folder: Path, pooling: str, config: ModelConfig, length: int | None) -> None:
    """Publish `modules.json` and the configurations of its two modules, with `mean` or `cls` pooling.

    `length` is the number of tokens at which texts are cut, None without a limit.
    """
    limit = {} if length is None else {"max_seq_length": length}
    publish_json(folder / "sentence_bert_config.json", {**limit, "do_lower_case": False})
    (folder / "1_Pooling").mkdir()
    modes = {"cls_token": pooling == "cls", "mean_tokens": pooling == "mean"}
    modes |= dict.fromkeys(("max_tokens", "mean_sqrt_len_tokens"), False)
    keys = {f"pooling_mode_{mode}": chosen for mode, chosen in modes.items()}
    publish_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.dim, **keys})
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(_MODULES)
    ]
    publish_json(folder / "modules.json", modules)
