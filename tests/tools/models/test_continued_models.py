"""Small published models from import to export: shards by their tokenizer, six steps on their weights, and back.

Each has the files that its family publishes: weights and config.json of transformers, a tokenizer.json with the
family's ids, and hardly any tokenizer_config.json: class and post-processor give the roles of special pieces.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from clozeline.configuration.config import load_config
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.models.compare_logits import main as compare
from clozeline.tools.models.export_model import main as export
from clozeline.tools.models.import_model import main as import_main
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run
from tests.pipeline.miniature import text, write_corpus, write_recipe

SIZES = {
    "vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
    "max_position_embeddings": 66,
}  # fmt: skip
TEXTS = [text(seed, 2) for seed in range(8)] + ["", " the  cat\n", "Besançon 東京", "the <mask> sat </s>", "a<mask> b"]


class Family(NamedTuple):
    """A family of published models: its class, what config.json says, and its special pieces in order of ids."""

    name: str
    config: dict[str, Any]
    objective: str
    roles: dict[str, str]
    """piece by role, as the class says"""
    first: Sequence[str]
    last: Sequence[str] = ()


MASKED = "{name: masked_lm, max_length: 48}"
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
ROLES = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
T5 = {
    "vocab_size": 400, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2, "pad_token_id": 0,
    "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
ONE = {"type_vocab_size": 1, "layer_norm_eps": 1e-5}
FAMILIES = {
    "roberta": Family("RobertaForMaskedLM", SIZES | IDS | ONE, MASKED, ROLES, FIRST, ["<mask>"]),
    "t5": Family(
        "T5ForConditionalGeneration", T5, "{name: span_corruption, input_length: 48}",
        {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}, ["<pad>", "</s>", "<unk>"],
        [f"<extra_id_{number}>" for number in reversed(range(100))],
    ),
}  # fmt: skip


def write_tokenizer(folder, name):
    """Write the tokenizer.json of a family; its vocabulary has 400 pieces."""
    family = FAMILIES[name]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if name == "roberta" else []
    first, last = list(family.first), list(family.last)
    size = 400 - len(last)
    options = {"vocab_size": size, "special_tokens": first, "show_progress": False, "initial_alphabet": alphabet}
    corpus = [text(seed, 12) for seed in range(60)]
    if name == "roberta":
        library = Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        library.train_from_iterator(corpus, trainers.BpeTrainer(**options))
    else:
        library = Tokenizer(models.Unigram())
        library.normalizer = normalizers.NFKC()
        library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        library.decoder = decoders.Metaspace()
        library.train_from_iterator(corpus, trainers.UnigramTrainer(unk_token="<unk>", **options))
    facts = json.loads(library.to_str())
    facts["added_tokens"] = []  # of the trainer: bytes, too
    pieces = facts["model"]["vocab"]
    if isinstance(pieces, list):  # the trainer stops a little early or late
        fillers = [[f"▁filler{number}", -30.0] for number in range(size - len(pieces))]
        facts["model"]["vocab"] = [*pieces, *fillers, *([piece, 0.0] for piece in last)]
    else:
        fillers = [f"filler{number}" for number in range(size - len(pieces))]
        pieces |= {piece: number for number, piece in enumerate([*fillers, *last], len(pieces))}
    library = Tokenizer.from_str(json.dumps(facts))
    assert library.get_vocab_size() == 400
    library.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in family.first])
    library.add_special_tokens(
        [AddedToken(piece, special=True, normalized=False, lstrip=piece == "<mask>") for piece in last]
    )
    if name == "roberta":
        library.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
        )
    else:
        library.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
        )
    library.save(str(folder / "tokenizer.json"))
    facts = {"model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))


def publish(folder, name):
    """Write a complete model with random weights as its family publishes it."""
    family = FAMILIES[name]
    kind = getattr(transformers, family.name)
    torch.manual_seed(3)
    model = kind(kind.config_class(**family.config))
    for parameter in model.parameters():
        parameter.data += torch.randn_like(parameter) * 0.02  # gains and biases, too
    model.save_pretrained(folder)
    write_tokenizer(folder, name)
    return folder


def train(world, config):
    return run(load_config(TrainConfig, config), joined=world)


def continue_training(folder, source, objective, ranks, texts=""):
    """Make shards with the tokenizer of an imported model, and train its weights on them for six steps."""
    recipe = write_recipe(
        folder,
        f"{{corpus: small, output: {folder}/out, input: {texts or write_corpus(folder / 'texts', 30)},"
        " heldout: {fraction: 0.1}, clean: {language: null, filters: []},"
        f" tokenizer: {{path: {source}}}, encode: {{}}, group: {{}}, corrupt: [{objective}]}}",
    )
    assert run_pipeline(["--config", str(recipe)]) == 0
    (shards,) = (folder / "out" / "corrupt").glob("*/train")
    config = folder / "train.yaml"
    config.write_text(
        f"{{model: {{init_from: {source}}}, data: {{shards: {shards}, global_batch: 8, micro_batch: 4, lanes: 4}},"
        " optimizer: {name: adamw, learning_rate: 1e-3}, schedule: {name: linear, warmup: 2},"
        f" steps: 6, output: {folder}/run, log: {{tensorboard: false}}}}"
    )
    assert ranks.run(train, config) == [0]
    return folder / "run"


@pytest.mark.parametrize(
    "name", [name if name == "roberta" else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]
)
def test_a_published_model_is_continued_and_given_back(tmp_path, name, one_rank):
    family, published = FAMILIES[name], publish(tmp_path / "published", name)
    ours, exported = tmp_path / "ours", tmp_path / "exported"
    assert import_main([str(published), str(ours)]) == 0
    assert compare([str(ours), str(published), "--theirs", "--close=1e-5"]) == 0
    trained = continue_training(tmp_path, ours, family.objective, one_rank)
    tokenizer = load_tokenizer(trained / "tokenizer")
    roles = {role: tokenizer.piece(token) for role, token in tokenizer.vocabulary.specials.items()}
    assert roles == family.roles
    assert tokenizer.vocabulary.size == 400, "no piece is added"
    assert export([str(trained), str(exported)]) == 0
    assert compare([str(trained), str(exported), "--theirs", "--close=1e-5"]) == 0
    assert compare([str(published), str(exported), "--theirs", "--close=1e-5"]) == 65, "it has learned"
    theirs, back = (AutoTokenizer.from_pretrained(folder) for folder in (published, exported))
    assert [back(one).input_ids for one in TEXTS] == [theirs(one).input_ids for one in TEXTS]
    assert back(TEXTS, TEXTS[::-1]).input_ids == theirs(TEXTS, TEXTS[::-1]).input_ids
    assert back.special_tokens_map == theirs.special_tokens_map
    spelled = ["".join(letter for letter in one if letter not in "<[") for one in TEXTS]
    expected = theirs(spelled, add_special_tokens=False).input_ids
    assert [encoding.ids.tolist() for encoding in tokenizer.encode(spelled)] == expected
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (published, exported))
    ids = {key: value for key, value in before.items() if key.endswith("_token_id")}
    assert ids == {key: after.get(key) for key in ids}
    small = {path.name for path in published.iterdir()} - {"config.json", "model.safetensors"}
    if before["model_type"] == after["model_type"]:
        assert [name for name in small if (exported / name).read_bytes() != (published / name).read_bytes()] == []
