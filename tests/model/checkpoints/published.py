"""Small models of every type, as transformers builds and saves them, with random weights in every parameter."""

import inspect
import json
import random

import torch
import transformers
from safetensors.torch import save_file

from model.registry import find, names

VOCABULARY = 37
TYPES = sorted(find("model.checkpoints", name).model_type for name in names("model.checkpoints"))
BODY = {
    "albert": "bert", "electra": "bert", "megatron-bert": "bert", "rembert": "bert",
    "bert": "bert", "roberta": "bert", "xlm-roberta": "bert", "distilbert": "distilbert", "gpt2": "gpt",
    "openai-gpt": "gpt", "llama": "llama", "t5": "t5", "mt5": "t5", "bart": "bart", "mbart": "bart",
    "modernbert": "modernbert",
    "xlm": "xlm",
    "xlnet": "xlnet",
    "deberta": "deberta", "deberta-v2": "deberta",
    "mobilebert": "mobilebert",
}  # fmt: skip
SCORES = {
    "masked_lm": ("prediction_logits", "logits"),
    "sentence": ("seq_relationship_logits", "sop_logits", "logits"),
    "lm": ("logits",),
    "token": ("logits",),
}
"""Names that classes give to the scores of each head; the first that an output has."""
CLASSES = {
    "bert": ("BertConfig", "BertForMaskedLM"),
    "bert pretraining": ("BertConfig", "BertForPreTraining"),
    "bert sentences": ("BertConfig", "BertForNextSentencePrediction"),
    "albert": ("AlbertConfig", "AlbertForMaskedLM"),
    "albert pretraining": ("AlbertConfig", "AlbertForPreTraining"),
    "megatron-bert": ("MegatronBertConfig", "MegatronBertForMaskedLM"),
    "megatron-bert pretraining": ("MegatronBertConfig", "MegatronBertForPreTraining"),
    "megatron-bert sentences": ("MegatronBertConfig", "MegatronBertForNextSentencePrediction"),
    "electra": ("ElectraConfig", "ElectraForMaskedLM"),
    "electra discriminator": ("ElectraConfig", "ElectraForPreTraining"),
    "rembert": ("RemBertConfig", "RemBertForMaskedLM"),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM"),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaForMaskedLM"),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM"),
    "deberta": ("DebertaConfig", "DebertaForMaskedLM"),
    "deberta-v2": ("DebertaV2Config", "DebertaV2ForMaskedLM"),
    "mobilebert": ("MobileBertConfig", "MobileBertForMaskedLM"),
    "mobilebert pretraining": ("MobileBertConfig", "MobileBertForPreTraining"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
    "openai-gpt": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel"),
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "t5": ("T5Config", "T5ForConditionalGeneration"),
    "mt5": ("MT5Config", "MT5ForConditionalGeneration"),
    "bart": ("BartConfig", "BartForConditionalGeneration"),
    "mbart": ("MBartConfig", "MBartForConditionalGeneration"),
    "modernbert": ("ModernBertConfig", "ModernBertForMaskedLM"),
    "xlm": ("XLMConfig", "XLMWithLMHeadModel"),
    "xlnet": ("XLNetConfig", "XLNetLMHeadModel"),
}
MODERN_BIASES = ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias")


def type_of(case):
    """The model type of a case of `CLASSES`: its first word."""
    return case.partition(" ")[0]


def options(case, seed):
    """Odd sizes and switches, drawn by the seed."""
    model_type = type_of(case)
    draw = random.Random(f"{model_type} {seed}")
    heads = draw.choice([1, 3, 5])
    dim, layers, ffn, places = heads * draw.choice([4, 6, 10]), draw.choice([1, 2, 3]), draw.choice([7, 20, 33]), 20
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    match BODY[model_type]:
        case "bert":
            found = {"vocab_size": VOCABULARY, "hidden_size": dim, "num_hidden_layers": layers,
                     "num_attention_heads": heads, "intermediate_size": ffn, "max_position_embeddings": places,
                     "layer_norm_eps": draw.choice([1e-5, 1e-12]), "pad_token_id": 0}  # fmt: skip
            if "bert" in model_type and "roberta" not in model_type:
                more = {"hidden_act": draw.choice(["gelu", "relu", "gelu_new"]), "type_vocab_size": draw.choice([1, 2])}
                ids = {"bos_token_id": 1, "eos_token_id": 2}
                if model_type == "albert":
                    groups, inner = draw.choice([1, layers]), draw.choice([1, 2])
                    more |= {"embedding_size": 5, "num_hidden_groups": groups, "inner_group_num": inner, **ids}
                if model_type == "rembert":
                    more |= {"input_embedding_size": 5, "output_embedding_size": draw.choice([5, 7]), **ids}
            else:
                more = {"pad_token_id": draw.choice([0, 1, 3]), "type_vocab_size": 1}
                if model_type == "electra":
                    more |= {"pad_token_id": 0, "embedding_size": draw.choice([5, dim]), "type_vocab_size": 2}
            return found | more
        case "distilbert":
            return {"vocab_size": VOCABULARY, "dim": dim, "n_layers": layers, "n_heads": heads, "hidden_dim": ffn,
                    "max_position_embeddings": places, "activation": draw.choice(["gelu", "relu"]),
                    "sinusoidal_pos_embds": draw.choice([True, False]), "pad_token_id": 0}  # fmt: skip
        case "xlm":
            return {"vocab_size": VOCABULARY, "emb_dim": dim, "n_layers": layers, "n_heads": heads,
                    "max_position_embeddings": places, "gelu_activation": draw.choice([True, False]),
                    "sinusoidal_embeddings": draw.choice([True, False]), "n_langs": draw.choice([1, 5]),
                    "use_lang_emb": draw.choice([True, False]), "pad_token_id": 0}  # fmt: skip
        case "deberta":
            found = {"vocab_size": VOCABULARY, "hidden_size": dim, "num_hidden_layers": layers,
                     "num_attention_heads": heads, "intermediate_size": ffn, "max_position_embeddings": places,
                     "layer_norm_eps": draw.choice([1e-5, 1e-7]), "type_vocab_size": draw.choice([0, 2]),
                     "hidden_act": draw.choice(["gelu", "relu"]), "relative_attention": True, "pad_token_id": 0,
                     "pos_att_type": draw.choice(["c2p", "p2c", "c2p|p2c"]),
                     "max_relative_positions": draw.choice([-1, 5]),
                     "position_biased_input": draw.choice([True, False])}  # fmt: skip
            more = {"position_buckets": draw.choice([-1, 4, 6]), "share_att_key": draw.choice([True, False]),
                    "norm_rel_ebd": draw.choice(["none", "layer_norm"]), "conv_kernel_size": draw.choice([0, 3, 5]),
                    "conv_act": found["hidden_act"]}  # fmt: skip
            return found | more if model_type == "deberta-v2" else found
        case "mobilebert":
            narrow = draw.choice([True, False])
            return {"vocab_size": VOCABULARY, "hidden_size": dim + 1, "num_hidden_layers": layers,
                    "num_attention_heads": heads, "intermediate_size": ffn, "max_position_embeddings": places,
                    "type_vocab_size": draw.choice([1, 2]), "hidden_act": draw.choice(["gelu", "relu"]),
                    "embedding_size": dim - draw.choice([0, 1, 3]), "intra_bottleneck_size": heads * 2,
                    "num_feedforward_networks": draw.choice([1, 2, 4]), "use_bottleneck_attention": narrow,
                    "key_query_shared_bottleneck": not narrow, "classifier_activation": draw.choice([True, False]),
                    "normalization_type": draw.choice(["no_norm", "layer_norm"]), "layer_norm_eps": 1e-5,
                    "pad_token_id": 0}  # fmt: skip
        case "gpt":
            found = ids | {"n_embd": dim, "n_layer": layers, "n_head": heads, "n_positions": places}
            more = {"n_inner": draw.choice([ffn, None]), "scale_attn_weights": draw.choice([True, False]),
                    "scale_attn_by_inverse_layer_idx": draw.choice([True, False])}  # fmt: skip
            return found | more if model_type == "gpt2" else found
        case "llama":
            return ids | {"hidden_size": dim, "num_hidden_layers": layers, "num_attention_heads": 2 * heads,
                          "num_key_value_heads": draw.choice([1, 2, heads]) if heads > 1 else 1,
                          "head_dim": draw.choice([4, 6]), "intermediate_size": ffn, "max_position_embeddings": places,
                          "attention_bias": draw.choice([True, False]), "mlp_bias": draw.choice([True, False]),
                          "rms_norm_eps": draw.choice([1e-5, 1e-6]), "tie_word_embeddings": draw.choice([True, False]),
                          "rope_parameters": {"rope_type": "default", "rope_theta": draw.choice([50.0, 1e4])}
                          } | ({"num_key_value_heads": heads} if heads > 1 else {})  # fmt: skip
        case "xlnet":
            return ids | {"d_model": dim, "n_layer": layers, "n_head": heads, "d_inner": ffn,
                          "ff_activation": draw.choice(["gelu", "relu"]), "layer_norm_eps": draw.choice([1e-5, 1e-12]),
                          "tie_word_embeddings": draw.choice([True, False])}  # fmt: skip
        case "t5":
            kinds = ["relu", "gated-gelu", "gated-silu", "gelu"]
            return ids | {"d_model": dim, "d_kv": draw.choice([3, 6]), "d_ff": ffn, "num_layers": layers,
                          "num_decoder_layers": draw.choice([1, 2]), "num_heads": heads,
                          "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9,
                          "feed_forward_proj": draw.choice(kinds), "decoder_start_token_id": 0}  # fmt: skip
        case "modernbert":
            act = draw.choice(["gelu", "relu"])
            return ids | {"hidden_size": dim, "num_hidden_layers": layers + 2, "num_attention_heads": heads,
                          "intermediate_size": ffn, "max_position_embeddings": places, "cls_token_id": 1,
                          "sep_token_id": 2, "local_attention": draw.choice([2, 3, 5, 8]), "hidden_activation": act,
                          "classifier_activation": act, "global_attn_every_n_layers": draw.choice([2, 3]),
                          **{key: draw.choice([True, False]) for key in MODERN_BIASES}}  # fmt: skip
        case _:
            return ids | {"d_model": dim, "encoder_layers": layers, "decoder_layers": draw.choice([1, 2]),
                          "encoder_attention_heads": heads, "decoder_attention_heads": draw.choice([1, 2, heads]),
                          "encoder_ffn_dim": ffn, "decoder_ffn_dim": draw.choice([ffn, 11]),
                          "max_position_embeddings": places, "decoder_start_token_id": 2,
                          "scale_embedding": draw.choice([True, False])}  # fmt: skip


def peer(case, seed=0, **changes):
    """A model of transformers in evaluation mode; every parameter is drawn, since zeros and ones hide mistakes."""
    config, model = CLASSES[case]
    settings = getattr(transformers, config)(**(options(case, seed) | changes), attn_implementation="eager")
    theirs = getattr(transformers, model)(settings)
    draw = torch.Generator().manual_seed(3)
    for parameter in theirs.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
    if getattr(theirs.config, "trigram_input", False):  # the class reads the padding beside a token, ours does not
        theirs.get_input_embeddings().weight.data[theirs.config.pad_token_id] = 0
    return theirs.eval()


def saved(folder, case, seed=0, **changes):
    """A directory that transformers wrote, and the model in it."""
    theirs = peer(case, seed, **changes)
    theirs.save_pretrained(folder)
    return theirs


def export_to(folder, export):
    """Write an export as a directory."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(export.config))
    save_file(export.tensors, folder / "model.safetensors")
    return folder


def loaded(folder, name):
    """The model that a class of transformers reads, and what it remarks about the tensors."""
    model, report = getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager"
    )
    return model.eval(), {key: value for key, value in report.items() if value}


def edit_config(folder, **changes):
    """Change keys of config.json; None removes one."""
    path = folder / "config.json"
    plain = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in plain.items() if value is not None}))


def rows(theirs, seed=5):
    """The same two rows for both sides: theirs by mask, ours by lengths and places."""
    draw = torch.Generator().manual_seed(seed)
    lengths, places = torch.tensor([11, 6]), torch.arange(11).expand(2, 11)
    pad = theirs.config.pad_token_id
    ids = torch.randint(4, VOCABULARY, (2, 11), generator=draw).masked_fill(places >= lengths[:, None], pad)
    valid = places < lengths[:, None]
    ours = {"input_ids": ids, "position_ids": places, "lengths": lengths}
    their = {"input_ids": ids, "attention_mask": valid.long()}
    if getattr(theirs.config, "n_langs", 1) > 1:
        their["langs"] = ours["languages"] = torch.randint(0, theirs.config.n_langs, (2, 11), generator=draw)
    if theirs.config.is_encoder_decoder:
        target = torch.randint(4, VOCABULARY, (2, 7), generator=draw)
        ours |= {"decoder_input_ids": target, "decoder_position_ids": places[:, :7]}
        their |= {"decoder_input_ids": target}
        valid = torch.ones(2, 7, dtype=torch.bool)
    return ours, their, valid


def left_rows(theirs):
    """`rows` with the padding on the left; places count from the first token, as `generate` counts them."""
    ours, their, valid = rows(theirs)
    left = ours["input_ids"].shape[1] - ours["lengths"]
    ids = torch.stack([row.roll(int(shift)) for row, shift in zip(ours["input_ids"], left, strict=True)])
    mask = their["attention_mask"].flip(1)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    ours |= {"input_ids": ids, "position_ids": places, "left_padding": left}
    their |= {"input_ids": ids, "attention_mask": mask}
    reads_places = "position_ids" in inspect.signature(theirs.forward).parameters
    from_ids = theirs.config.model_type in ("roberta", "xlm-roberta")
    return (
        ours,
        their | ({"position_ids": places} if reads_places and not from_ids else {}),
        (valid if theirs.config.is_encoder_decoder else mask.bool()),
    )


def scores(theirs, heads):
    """Their scores of each head on `rows`: at places that hold tokens, or of whole rows."""
    _, their, valid = rows(theirs)
    with torch.no_grad():
        output = theirs(**their)
    found = {head: next(output[name] for name in SCORES[head] if name in output) for head in heads}
    found |= {"token": found["token"][..., None]} if "token" in found else {}
    return {head: value[valid] if value.ndim > 2 else value for head, value in found.items()}


def difference(model, theirs):
    """The largest difference of logits of all heads."""
    ours, _, valid = rows(theirs)
    with torch.no_grad():
        logits = model.logits(ours)
    expected = scores(theirs, logits)
    found = {head: value[valid] if value.ndim > 2 else value for head, value in logits.items()}
    return max((found[head] - expected[head]).abs().max().item() for head in found)
