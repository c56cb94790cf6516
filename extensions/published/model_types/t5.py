"""T5 1.0 and 1.1, mT5, and UMT5."""

from dataclasses import replace
from typing import Final

import torch

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    ANSWER,
    CLASSES,
    DROPOUT,
    Keys,
    Names,
    Tensors,
    Values,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames
from clozeline.model.configuration.model_config import ModelConfig

_GATED_ACTIVATIONS: Final = {
    f"gated-{name}": ours for name, ours in (ACTIVATIONS | {"gelu": "gelu_tanh"}).items()
}


def _stack(name: str) -> Values:
    inner = 2 if name == "decoder" else 1
    layer = {
        "attention.norm": "layer.0.layer_norm",
        "feed_forward.norm": f"layer.{inner}.layer_norm",
    }
    attentions = {"attention": "layer.0.SelfAttention"}
    if name == "decoder":
        attentions["cross"] = "layer.1.EncDecAttention"
        layer["cross.norm"] = "layer.1.layer_norm"
    # the projections of each attention, then the parts outside the layers
    for ours, theirs in attentions.items():
        layer |= {
            f"{ours}.body.{part}": f"{theirs}.{part[0]}"
            for part in ("query", "key", "value", "out")
        }

    return {
        f"family.{name}.position.table": (
            f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias"
        ),
        f"family.{name}.norm": f"{name}.final_layer_norm",
        **layer_names(f"family.{name}", f"{name}.block", layer),
    }


class T5Keys(KeyMap):
    """T5 1.0 (arXiv 1910.10683) and 1.1 (arXiv 2002.05202).

    Pre-norm encoder and decoder with bucketed distances.

    The head is tied unless `lm_head.weight` of the file differs from the table, whatever
    config.json says.
    """

    model_type = "t5"
    classes = Classes(
        "T5",
        head_classes={("lm",): "ForConditionalGeneration"},
        base_class="EncoderModel",
        tasks={
            "ForSequenceClassification": CLASSES._replace(body=("", "transformer.")),
            "ForQuestionAnswering": ANSWER,
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {
            "family": "encoder_decoder",
            "norm": "rms",
            "qk_scale": 1.0,
            "position.kind": "t5",
            "init.scheme": "t5",
            **dict.fromkeys(("bias.qkv", "bias.out", "bias.ffn"), False),
        }
        table = {
            "dim": "d_model",
            "layers": "num_layers",
            "decoder_layers": ("num_decoder_layers", None),
            "attention_heads": "num_heads",
            "head_dim": "d_kv",
            "ffn_dim": "d_ff",
            "eps": ("layer_norm_epsilon", 1e-6),
            "position.buckets": ("relative_attention_num_buckets", 32),
            "position.max_distance": ("relative_attention_max_distance", 128),
            "dropout.hidden": ("dropout_rate", 0.1),
            "dropout.embedding": "dropout_rate",
            "dropout.attention": "dropout_rate",
            "dropout.activation": "dropout_rate",
            "dropout.output": "dropout_rate",
        }
        supported = {"is_decoder": (False,)}
        extra_keys = {
            "feed_forward_proj",
            "dense_act_fn",
            "is_gated_act",
            "tie_word_embeddings",
            "scale_decoder_outputs",
        }
        feed_forward = "relu"
        """type of feed-forward block if config.json does not name it"""

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            block = config_json.get("feed_forward_proj", self.feed_forward)
            act = self.read_activation(
                block, "feed_forward_proj", {**ACTIVATIONS, **_GATED_ACTIVATIONS}
            )
            # the next two keys, which the class writes, take precedence
            if (name := config_json.get("dense_act_fn")) is not None:
                act = self.read_activation(name, "dense_act_fn", ACTIVATIONS)
            gated = config_json.get("is_gated_act", block in _GATED_ACTIVATIONS)
            tied = config_json.get("tie_word_embeddings") is not False
            scaled = self.has_output_scale(config_json, tied)
            # a file may have a head that differs from the token table
            table, head = (
                next((tensor for key, tensor in tensors.items() if key.endswith(name)), None)
                for name in ("shared.weight", "lm_head.weight")
            )
            # without values, before a training, only a separate head is in the file
            has_separate_head = (
                table is not None
                and head is not None
                and (head.is_meta or not torch.equal(table, head))
            )

            return {
                "gated": gated,
                "activation": act,
                "tied": tied and not has_separate_head,
                "out_scale": scaled,
            }

        def has_output_scale(self, config_json: Keys, tied: bool) -> bool:
            """Return whether states are scaled before the head; by default, if it is tied."""
            return bool(config_json.get("scale_decoder_outputs", tied))

        def write_extra(self, config: ModelConfig) -> Values:
            names = _GATED_ACTIVATIONS if config.gated else ACTIVATIONS
            return {
                "feed_forward_proj": next(
                    (k for k, ours in names.items() if ours == config.activation), config.activation
                ),
                "tie_word_embeddings": config.tied,
                "scale_decoder_outputs": config.out_scale,
                "is_encoder_decoder": True,
            }

    class Tensors(KeyMap.Tensors):
        modules = {
            "family.tokens": "shared",
            **_stack("encoder"),
            **_stack("decoder"),
            "heads.lm.projection": "lm_head",
        }
        other_prefixes = ("transformer.",)
        skipped = {
            r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",
        }

        def names(self, config: ModelConfig) -> Names:
            """Name the modules of the feed-forward block by its type."""
            inner = {"gate": "wi_0", "up": "wi_1"} if config.gated else {"up": "wi"}
            names = {**self.modules}
            for stack, number in (("encoder", 1), ("decoder", 2)):
                theirs = f"{stack}.block.{{i}}.layer.{number}.DenseReluDense"
                for name, target in {**inner, "down": "wo"}.items():
                    names[f"family.{stack}.layers.{{i}}.feed_forward.body.{name}"] = (
                        f"{theirs}.{target}"
                    )
            return names

        def ties(self, config: ModelConfig) -> dict[str, str]:
            tables = [f"{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")]
            return {**dict.fromkeys(tables, "shared.weight"), **super().ties(config)}

    def variants(self) -> tuple[KeyMap, ...]:
        """Return the map of the encoder by itself, with the tables of the type."""
        map_class = type(self)
        classes = replace(
            map_class.classes,
            head_classes={},
            headless=("similarity",),
            head_options={"pool": "mean"},
            tasks={
                "ForTokenClassification": TaskHeadNames(
                    "classifier", dropout=DROPOUT, default_dropout=0.0
                )
            },
        )

        fixed = {
            "fixed": {
                **map_class.Configuration.fixed,
                "family": "encoder",
                "decoder_layers": None,
            }
        }

        # a subclass with these tables
        members = {
            "classes": classes,
            "Configuration": type(
                "Configuration", (T5EncoderKeys.Configuration, map_class.Configuration), fixed
            ),
            "Tensors": type("Tensors", (T5EncoderKeys.Tensors, map_class.Tensors), {}),
        }

        return (type(f"{map_class.__name__}Encoder", (T5EncoderKeys, map_class), members)(),)


class T5EncoderKeys(T5Keys):
    """The classes of the encoder by itself, without a head or for tagging.

    Their files have nothing of the decoder.

    A class without a head computes text vectors, for which our head needs no parameters.
    """

    class Configuration(T5Keys.Configuration):
        extra_keys = {"num_decoder_layers"}

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            return {
                k: v
                for k, v in super().read_extra(config_json, tensors).items()
                if k in ("gated", "activation")
            }

        def write_extra(self, config: ModelConfig) -> Values:
            return {**super().write_extra(config), "num_decoder_layers": config.layers}

    class Tensors(T5Keys.Tensors):
        base = "transformer."

        def names(self, config: ModelConfig) -> Names:
            encoder = {
                ours.replace("encoder", "stack", 1): f"transformer.{theirs}"
                for ours, theirs in super().names(config).items()
                if ours.startswith("family.encoder.")
            }
            return {"family.tokens": "transformer.shared", **encoder}

        def ties(self, config: ModelConfig) -> dict[str, str]:
            return {"transformer.encoder.embed_tokens.weight": "transformer.shared.weight"}

    def variants(self) -> tuple[KeyMap, ...]:
        return ()

    def is_written_by(self, config_json: Keys) -> bool:
        return (
            self.classes.task_of(config_json) is not None
            or (config_json.get("architectures") or [""])[0] == self.classes.body_class
        )


class Mt5Keys(T5Keys):
    """mT5 (arXiv 2010.11934).

    T5 1.1 with another vocabulary; states are never scaled before the head.
    """

    model_type = "mt5"
    classes = replace(T5Keys.classes, prefix="MT5", base_class="EncoderModel")

    class Configuration(T5Keys.Configuration):
        feed_forward = "gated-gelu"

        def has_output_scale(self, config_json: Keys, tied: bool) -> bool:
            """Return False, whatever config.json says."""
            return False


_DISTANCE_TABLE_NAME = {"position.table": "layer.0.SelfAttention.relative_attention_bias"}


class Umt5Keys(T5Keys):
    """UMT5 (arXiv 2304.09151).

    mT5 with a table of distances per layer.

    Whether states are scaled before the head follows from the file: a tied head reads scaled
    states, an untied one unscaled states, as published models were trained. transformers 5 treats
    every file as tied and scales the states even if it has a separate head: if config.json says
    `tie_word_embeddings: false`, its logits are ours times dim ** -0.5.
    """

    model_type = "umt5"
    classes = replace(T5Keys.classes, prefix="UMT5", base_class="EncoderModel")

    class Configuration(T5Keys.Configuration):
        feed_forward = "gated-gelu"
        fixed = {**T5Keys.Configuration.fixed, "position.per_layer": True}

    class Tensors(T5Keys.Tensors):
        modules = {
            **T5Keys.Tensors.modules,
            **layer_names("family.encoder", "encoder.block", _DISTANCE_TABLE_NAME),
            **layer_names("family.decoder", "decoder.block", _DISTANCE_TABLE_NAME),
        }
