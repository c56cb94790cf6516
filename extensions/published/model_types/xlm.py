"""XLM (arXiv 1901.07291)."""

from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.tables import (
    Keys,
    Tensors,
    Values,
    attention_names,
    layer_names,
)
from clozeline.extensions.published.conversion.task_heads import (
    TaskHeadNames,
    endings,
    label_keys,
    label_names,
)
from clozeline.extensions.published.model_types.bert import FIXED
from clozeline.model.configuration.head import ClassifierOptions, default_labels
from clozeline.model.configuration.model_config import ModelConfig

_FIRST_DROPOUT_KEY = "summary_first_dropout"


class XlmKeys(KeyMap):
    """Post-norm encoder with language embeddings; the head is the token table and a bias.

    A sinusoidal table becomes a learned one. The class of transformers also zeroes the states of
    padding, which no token sees, and adds rows of the token table for token types, which neither
    the paper nor its code does.
    """

    model_type = "xlm"
    classes = Classes(
        "XLM",
        head_classes={("masked_lm",): "WithLMHeadModel"},
        head_options={"transform": False},
        tasks={
            "ForSequenceClassification": TaskHeadNames(
                "sequence_summary.summary", dropout=_FIRST_DROPOUT_KEY, default_dropout=0.1
            ),
            "ForTokenClassification": TaskHeadNames("classifier"),
            "ForQuestionAnswering": TaskHeadNames(
                "qa_outputs", options={"dropout": 0.0}, suffix="Simple"
            ),
            "ForMultipleChoice": TaskHeadNames(
                "logits_proj", "sequence_summary.summary", options={"dropout": 0.0}
            ),
        },
    )

    class Configuration(KeyMap.Configuration):
        fixed = {**FIXED, "type_vocab_size": 0}
        table = {
            "dim": "emb_dim",
            "layers": "n_layers",
            "attention_heads": "n_heads",
            "eps": ("layer_norm_eps", 1e-12),
            "tied": ("tie_word_embeddings", True),
            "position.maximum": ("max_position_embeddings", 512),
            "dropout.hidden": ("dropout", 0.1),
            "dropout.embedding": "dropout",
            "dropout.attention": ("attention_dropout", 0.1),
            "init.std": ("init_std", 0.02),
            "init.embedding_std": ("embed_init_std", 2048**-0.5),
        }
        supported = {
            "causal": (False,),
            "asm": (False,),
            "is_encoder": (True,),
            "sinusoidal_embeddings": (False, True),
        }
        extra_keys = {
            "gelu_activation",
            "n_langs",
            "use_lang_emb",
            "n_words",
            "lang_id",
            "lang2id",
            "id2lang",
            "unk_index",
            "mask_index",
            "pad_index",
            "bos_index",
            "eos_index",
            "start_n_top",
            "end_n_top",
        }

        def task_options(self, ending: str, config_json: Keys) -> Values:
            """Raise ConfigurationError for summary keys other than the class's defaults.

            Two linear maps score a choice. The first is as wide as the number of labels, although
            a choice has no label.
            """
            if ending not in ("ForSequenceClassification", "ForMultipleChoice"):
                return {}
            supported_values = {
                "summary_type": ("first",),
                "summary_use_proj": (True,),
                "summary_proj_to_labels": (True,),
            }

            self.refuse_other_values(
                config_json, supported_values | {"summary_activation": (None,)}
            )
            if ending == "ForSequenceClassification":
                return {}
            dropout = config_json.get(_FIRST_DROPOUT_KEY, 0.1)
            width = len(label_names(config_json))
            return {"hidden": "identity", "hidden_dim": width, "input_dropout": dropout}

        def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
            summary = {
                "summary_type": "first",
                "summary_use_proj": True,
                "summary_proj_to_labels": True,
            }
            if endings().get(*config.heads) != "ForMultipleChoice":
                return summary
            labels = default_labels(head.hidden_dim or config.dim)
            return summary | {_FIRST_DROPOUT_KEY: head.input_dropout, **label_keys(labels)}

        def vocab_size(self, config_json: Keys) -> int:
            """Return the number of rows of the token table, which older files call `n_words`."""
            return super().vocab_size({"vocab_size": config_json.get("n_words"), **config_json})

        def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
            languages = (
                config_json.get("n_langs", 1) if config_json.get("use_lang_emb", True) else 0
            )
            return {
                "ffn_dim": 4 * config_json["emb_dim"],
                "activation": "gelu" if config_json.get("gelu_activation", True) else "relu",
                "languages": 0 if languages == 1 else languages,
            }

        def write_extra(self, config: ModelConfig) -> Values:
            return {
                "gelu_activation": config.activation == "gelu",
                "n_langs": max(1, config.languages),
                "use_lang_emb": True,
                "embed_init_std": config.init.embedding_std or config.init.std,
            }

    class Tensors(KeyMap.Tensors):
        base = "transformer."
        modules = {
            "family.tokens": "transformer.embeddings",
            "family.languages": "transformer.lang_embeddings",
            "family.stack.position.table": "transformer.position_embeddings",
            "family.stack.embeddings.norm": "transformer.layer_norm_emb",
            **layer_names(
                "family.stack",
                "transformer.attentions",
                attention_names("q_lin", "k_lin", "v_lin", "out_lin"),
            ),
            "family.stack.layers.{i}.attention.norm": "transformer.layer_norm1.{i}",
            "family.stack.layers.{i}.feed_forward.body.up": "transformer.ffns.{i}.lin1",
            "family.stack.layers.{i}.feed_forward.body.down": "transformer.ffns.{i}.lin2",
            "family.stack.layers.{i}.feed_forward.norm": "transformer.layer_norm2.{i}",
            "heads.masked_lm.projection": "pred_layer.proj",
        }
        buffers = {
            r"(^|\.)position_ids$",
        }
