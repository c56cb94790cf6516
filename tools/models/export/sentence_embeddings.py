"""Write the files that let sentence-transformers load an exported encoder as an embedding model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from clozeline.errors import ConfigurationError
from clozeline.files import publish_json
from clozeline.model.configuration.head import module_name
from clozeline.model.configuration.model_config import ModelConfig

if TYPE_CHECKING:  # imports torch
    from clozeline.model.checkpoints import Checkpoint

_MODES: Final = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
"""Pools of ours, and the modes of `Pooling` for them."""
_ALWAYS: Final = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
"""Modes that each version of `Pooling` knows, and reads."""
_POOLER: Final = "pooler"
_OF_RUN: Final = "run"
POOLINGS: Final = (_OF_RUN, *_MODES, _POOLER)
_HEAD: Final = "similarity"


def choose_pooling(checkpoint: Checkpoint, asked: str, *, encoder_alone: bool, tokenizer: bool) -> str:
    """Return the pool of an export: that of the run's vectors, or the one that was asked for if the run has none.

    Args:
        checkpoint: the model, with the heads of its training.
        asked: one of `POOLINGS`.
        encoder_alone: it is exported without its heads.
        tokenizer: it has a tokenizer.

    Raises:
        ConfigurationError: a model that cannot be pooled, or a pool other than that of its training.
    """
    config = checkpoint.config
    if config.architecture == "decoder":
        later = "whose positions do not see later tokens"
        raise ConfigurationError(f"pooling: expected a model with an encoder, got a decoder, {later}")
    if not encoder_alone:
        raise ConfigurationError("pooling: embeddings are read from the encoder alone; add parts=encoder")
    if not tokenizer:
        raise ConfigurationError("pooling: a model of sentence embeddings needs its tokenizer, and none was found")
    trained = {name: pool for name in config.heads if (pool := _trained_pool(config, name)) is not None}
    if not trained:
        if asked in (_OF_RUN, _POOLER):
            raise ConfigurationError(
                f"pooling: expected one of {', '.join(_MODES)}, got {asked}: no head of this model was trained on "
                "vectors of texts"
            )
        return asked
    name, pool = next(iter(trained.items()))
    if pool not in (*_MODES, _POOLER):
        raise ConfigurationError(
            f"pooling: model.heads.{name}.pool: expected one of {', '.join(_MODES)}, got {pool}, for which "
            "sentence-transformers has no module"
        )
    if asked not in (_OF_RUN, pool):
        raise ConfigurationError(
            f"pooling: expected {pool}, on which model.heads.{name} was trained, got {asked}: give pooling={_OF_RUN}"
        )
    return pool


def _trained_pool(config: ModelConfig, name: str) -> str | None:
    """Return the pool of the vectors on which a head was trained; None if it read no vector of one text."""
    pool = config.heads[name].pool
    if config.targets[name] == _HEAD:
        return pool or _POOLER
    return pool if pool in _MODES else None


def write_modules(folder: Path, pooling: str, checkpoint: Checkpoint, length: int | None) -> None:
    """Publish `modules.json` and its modules: the Transformer, a pool, and the trained pooler behind it.

    Vectors of the head similarity have length 1, as in its training. `length` is the number of tokens at which texts
    are cut, None without a limit.
    """
    config = checkpoint.config
    limit = {} if length is None else {"max_seq_length": length}
    publish_json(folder / "sentence_bert_config.json", {**limit, "do_lower_case": False})
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    chosen = "cls" if pooling == _POOLER else pooling
    keys = {f"pooling_mode_{mode}": mode == _MODES[chosen] for mode in dict.fromkeys((*_ALWAYS, _MODES[chosen]))}
    publish_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": config.dim, **keys})
    similarity = [name for name, target in config.targets.items() if target == _HEAD]
    if pooling == _POOLER:
        kinds.append(("2_Dense", "Dense"))
        _write_pooler(folder / "2_Dense", checkpoint, similarity[0])
    if similarity:
        kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
        (folder / kinds[-1][0]).mkdir()
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds)
    ]
    publish_json(folder / "modules.json", modules)


def _write_pooler(folder: Path, checkpoint: Checkpoint, head: str) -> None:
    """Write tanh(Linear(x)) of the head's pooler."""
    from clozeline.tools.model_folder import write_tensors

    folder.mkdir()
    pooler = f"heads.{module_name(head)}.pooler.dense."
    tensors = {part: checkpoint.tensors[f"{pooler}{part}"].float().contiguous() for part in ("weight", "bias")}
    outputs, inputs = tensors["weight"].shape
    keys = {"in_features": inputs, "out_features": outputs, "bias": True}
    publish_json(folder / "config.json", {**keys, "activation_function": "torch.nn.modules.activation.Tanh"})
    named = {f"linear.{part}": tensor for part, tensor in tensors.items()}
    write_tensors(folder / "model.safetensors", named)
