"""BART and types with its names: mBART, PEGASUS and Marian."""

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ANSWER,
    CLASSES,
    Keys,
    Reshaped,
    Tensors,
    Values,
    layer_names,
)
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.position import Sinusoidal

_LOGITS_BIAS: Final = "final_logits_bias"


def _stack(name: str) -> Values:
    attentions = {"attention": "self_attn"} | (
        {"cross": "encoder_attn"} if name == "decoder" else {}
    )
    layer = {
        "feed_forward.body.up": "fc1",
        "feed_forward.body.down": "fc2",
        "feed_forward.norm": "final_layer_norm",
    }
    # the projections of each attention, then the parts outside the layers
    for ours, published in attentions.items():
        layer[f"{ours}.norm"] = f"{published}_layer_norm"
        layer |= {
            f"{ours}.body.{part}": f"{published}.{part[0]}_proj"
            for part in ("query", "key", "value")
        }
        layer[f"{ours}.body.out"] = f"{published}.out_proj"

    return {
        f"family.{name}.position.table": f"model.{name}.embed_positions",
        f"family.{name}.embeddings.norm": f"model.{name}.layernorm_embedding",
        f"family.{name}.norm": f"model.{name}.layer_norm",
        **layer_names(f"family.{name}", f"model.{name}.layers", layer),
    }


class BartKeys(KeyMap):
    """BART (arXiv 1910.13461).

    Post-norm encoder and decoder. The bias that the class adds to its logits is imported unless it
    is 0.
    """

    model_type = "bart"
    classes = Classes(
        "Bart",
        head_classes={("lm",): "ForConditionalGeneration"},
        base_class=None,
        projections=("linear", "biased"),
        tasks={"ForSequenceClassification": CLASSES, "ForQuestionAnswering": ANSWER},
    )

    class Configuration(KeyMap.Configuration):
        fixed = {
            "family": "encoder_decoder",
            "norm_place": "post",
            "final_norm": False,
            "emb_norm": True,
            "eps": 1e-5,
            "position.kind": "learned",
            "position.offset": 2,
        }
        table = {
            "dim": "d_model",
            "layers": "encoder_layers",
            "decoder_layers": "decoder_layers",
            "attention_heads": "encoder_attention_heads",
            "ffn_dim": "encoder_ffn_dim",
            "decoder_attention_heads": "decoder_attention_heads",
            "decoder_ffn_dim": "decoder_ffn_dim",
            "emb_scale": ("scale_embedding", False),
            "tied": ("tie_word_embeddings", True),
            "position.maximum": ("max_position_embeddings", 1024),
            "dropout.hidden": ("dropout", 0.1),
            "dropout.embedding": "dropout",
            "dropout.attention": ("attention_dropout", 0.0),
            "dropout.activation": ("activation_dropout", 0.0),
            "init.std": ("init_std", 0.02),
            "activation": ("activation_function", "gelu"),
        }
        supported = {
            "normalize_before": (False,),
            "static_position_embeddings": (False,),
            "is_decoder": (False,),
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return a head with a bias if the file has a bias that is not 0, which is rare."""
            bias = tensors.get(_LOGITS_BIAS)
            biased = bias is not None and (bias.is_meta or bool(bias.any()))
            return {"heads.lm": {"weight": 1.0, "projection": "biased"}} if biased else {}

        def write_extra(self, config: ModelConfig) -> Values:
            return {"is_encoder_decoder": True}

    class Tensors(KeyMap.Tensors):
        base = "model."
        modules = {
            "family.tokens": "model.shared",
            **_stack("encoder"),
            **_stack("decoder"),
            "heads.lm.projection": "lm_head",
            "heads.lm.projection.bias": Reshaped(_LOGITS_BIAS, (1, -1)),
        }
        buffers = {
            r"^(model\.)?(encoder|decoder)\.(version|embed_positions\._float_tensor)$",
        }

        def ties(self, config: ModelConfig) -> dict[str, str]:
            tables = [f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")]
            return {**dict.fromkeys(tables, "model.shared.weight"), **super().ties(config)}

        def unread_copies(self, config: ModelConfig) -> dict[str, str]:
            """Return the token tables of both stacks if nothing is tied; our model has one."""
            return (
                {}
                if config.tied
                else {
                    copy: name
                    for copy, name in self.ties(config).items()
                    if copy != "lm_head.weight"
                }
            )

        def copies(self, config: ModelConfig) -> dict[str, str]:
            return self.unread_copies(config)  # classes with task heads also have these tables

        def constants(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
            """Return the bias of the logits for a model that has none: zeros."""
            head = config.heads.get("lm")
            return (
                {}
                if head is not None and head.projection == "biased"
                else {_LOGITS_BIAS: torch.zeros(1, vocab_size)}
            )


class MbartKeys(BartKeys):
    """mBART (arXiv 2001.08210).

    BART with the norm before each block, and one after the last layer of each stack.
    """

    model_type = "mbart"
    classes = replace(BartKeys.classes, prefix="MBart")

    class Configuration(BartKeys.Configuration):
        fixed = {**BartKeys.Configuration.fixed, "norm_place": "pre", "final_norm": True}
        supported = {
            "normalize_before": (True,),
            "static_position_embeddings": (False,),
            "is_decoder": (False,),
        }


_POSITION_TABLES: Final = tuple(
    f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")
)
_WAVE_TOLERANCE: Final = 1e-6
"""Largest difference between a position table and the waves for which it is taken."""


class FixedPositionsKeys(BartKeys):
    """BART without a norm after the embeddings, and with waves as positions: sines before cosines.

    The transformers class reads the position tables of a file, whatever their values. Therefore, an
    import reads tables with values other than the waves as learned positions.
    """

    classes = replace(BartKeys.classes, tasks={})

    class Configuration(BartKeys.Configuration):
        fixed = {
            **{
                key: value
                for key, value in BartKeys.Configuration.fixed.items()
                if not key.startswith("position.")
            },
            "emb_norm": False,
        }
        extra_keys = {
            "static_position_embeddings",
            "extra_pos_embeddings",
            "normalize_embedding",
            "add_final_layer_norm",
            "add_bias_logits",
            "classif_dropout",
        }

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            """Return the head, and the positions, from the tables or else from config.json."""
            tables = [
                tensor
                for name, tensor in tensors.items()
                if name.endswith("embed_positions.weight")
            ]

            fixed = (
                all(map(_is_waves, tables))
                if tables
                else config_json.get("static_position_embeddings", True)
            )

            position = {"kind": "sinusoidal", "waves": "halves"} if fixed else {"kind": "learned"}
            return super().read_extra(config_json, tensors) | {
                f"position.{key}": value for key, value in position.items()
            }

        def write_extra(self, config: ModelConfig) -> Values:
            fixed = config.position.kind == "sinusoidal"
            return {**super().write_extra(config), "static_position_embeddings": fixed}


class PegasusKeys(FixedPositionsKeys):
    """PEGASUS (arXiv 1912.08777).

    The norm before each block, and one after the last layer of each stack.
    """

    model_type = "pegasus"
    classes = replace(FixedPositionsKeys.classes, prefix="Pegasus")

    class Configuration(FixedPositionsKeys.Configuration):
        fixed = {**FixedPositionsKeys.Configuration.fixed, "norm_place": "pre", "final_norm": True}
        supported = {"normalize_before": (True,), "is_decoder": (False,)}

    class Tensors(FixedPositionsKeys.Tensors):
        def constants(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
            """Return the bias of the logits, and the position tables, which the class saves."""
            waves = (
                _waves(config.position.maximum, config.dim)
                if config.position.kind == "sinusoidal"
                else None
            )
            tables = {} if waves is None else {name: waves.clone() for name in _POSITION_TABLES}
            return {**super().constants(config, vocab_size), **tables}


def _waves(rows: int, width: int) -> Tensor:
    return Sinusoidal(width, "halves").embed(torch.arange(rows))


def _is_waves(table: Tensor) -> bool:
    if table.is_meta or table.shape[1] % 2:  # a plan has learned tables without values
        return False
    waves = _waves(*table.shape).to(table.dtype)
    return bool((table.float() - waves.float()).abs().max() <= _WAVE_TOLERANCE)


class MarianKeys(FixedPositionsKeys):
    """Marian's translation models (arXiv 1804.00344), such as those of OPUS-MT.

    The norm after each block; the transformers class computes position tables and does not save
    them.
    """

    model_type = "marian"
    classes = replace(
        FixedPositionsKeys.classes, prefix="Marian", head_classes={("lm",): "MTModel"}
    )

    class Configuration(FixedPositionsKeys.Configuration):
        supported = {
            "normalize_before": (False,),
            "is_decoder": (False,),
            "share_encoder_decoder_embeddings": (True,),
        }
        extra_keys = {"decoder_vocab_size"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            size = config_json.get("vocab_size")
            if (decoder_size := config_json.get("decoder_vocab_size")) not in (None, size):
                self.refuse(
                    "decoder_vocab_size",
                    f"expected the encoder's, {size}, got {decoder_size}: both stacks share one "
                    "table",
                )
            return super().read_extra(config_json, tensors)

    class Tensors(FixedPositionsKeys.Tensors):
        buffers = {
            *FixedPositionsKeys.Tensors.buffers,
            r"^(model\.)?(encoder|decoder)\.embed_positions\.weight$",
        }
