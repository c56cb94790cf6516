"""A small published RoBERTa from import to export: shards by its tokenizer, six steps on its
weights, and back.

It has the files that the family publishes: weights and config.json of transformers, a
tokenizer.json with the family's ids, and hardly any tokenizer_config.json: class and post-processor
give the roles of special pieces.
"""

import json

import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from clozeline.extensions.published.commands.compare_logits import main as compare
from clozeline.extensions.published.commands.export_model import main as export
from clozeline.extensions.published.commands.import_model import main as import_main
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from tests.extensions.tasks.task_runs import start
from tests.pipeline.miniature import text, write_corpus, write_recipe

CONFIG = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 66,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
TEXTS = [text(seed, 2) for seed in range(8)] + [
    "",
    " the  cat\n",
    "Besançon 東京",
    "the <mask> sat </s>",
    "a<mask> b",
]
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
ROLES = {
    "bos": "<s>",
    "pad": "<pad>",
    "eos": "</s>",
    "unk": "<unk>",
    "cls": "<s>",
    "sep": "</s>",
    "mask": "<mask>",
}


def write_tokenizer(folder):
    """Write tokenizer.json; its vocabulary has 400 pieces, of which <mask> is the last."""
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {
        "vocab_size": 399,
        "special_tokens": FIRST,
        "show_progress": False,
        "initial_alphabet": alphabet,
    }

    library.train_from_iterator(
        [text(seed, 12) for seed in range(60)], trainers.BpeTrainer(**options)
    )
    pieces = [
        AddedToken(piece, special=True, normalized=False, lstrip=piece == "<mask>")
        for piece in (*FIRST, "<mask>")
    ]
    library.add_special_tokens(pieces)

    assert library.get_vocab_size() == 400

    library.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    library.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64}))


def publish(folder):
    """Write a complete model with random weights as its family publishes it."""
    torch.manual_seed(3)
    model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**CONFIG))
    for parameter in model.parameters():
        parameter.data += torch.randn_like(parameter) * 0.02  # gains and biases, too
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def continue_training(folder, source, ranks):
    """Make shards with the tokenizer of an imported model, and train its weights on them for six
    steps."""
    recipe = write_recipe(
        folder,
        f"{{corpus: small, output: {folder}/out, input: {write_corpus(folder / 'texts', 30)}, "
        "heldout: {fraction: 0.1}, clean: {language: null, filters: []}, tokenizer: {path: "
        f"{source}}}, encode: {{}}, group: {{}}, corrupt: [{{name: masked_lm, max_length: 48}}]}}",
    )

    assert run_pipeline(["--config", str(recipe)]) == 0

    config = folder / "train.yaml"
    config.write_text(
        f"{{model: {{init_from: {source}}}, data: {{shards: {folder}/out/corrupt/masked_lm/train, "
        "global_batch: 8, micro_batch: 4, lanes: 4}, optimizer: {name: adamw, learning_rate: "
        f"1e-3}}, schedule: {{name: linear, warmup: 2}}, steps: 6, output: {folder}/run, log: "
        "{tensorboard: false}}"
    )

    assert ranks.run(start, config) == [0]

    return folder / "run"


def test_a_published_model_is_continued_and_given_back(tmp_path, one_rank):
    published = publish(tmp_path / "published")
    ours = tmp_path / "ours"
    exported = tmp_path / "exported"

    assert import_main([str(published), str(ours)]) == 0
    assert compare([str(ours), str(published), "--theirs", "--close=1e-5"]) == 0

    trained = continue_training(tmp_path, ours, one_rank)
    tokenizer = load_tokenizer(trained / "tokenizer")
    roles = {role: tokenizer.piece(token) for role, token in tokenizer.vocabulary.specials.items()}

    assert roles == ROLES
    assert tokenizer.vocabulary.size == 400, "no piece is added"
    assert export([str(trained), str(exported)]) == 0
    assert compare([str(trained), str(exported), "--theirs", "--close=1e-5"]) == 0
    assert compare([str(published), str(exported), "--theirs", "--close=1e-5"]) == 65, (
        "it has learned"
    )

    theirs, back = (AutoTokenizer.from_pretrained(folder) for folder in (published, exported))

    assert [back(one).input_ids for one in TEXTS] == [theirs(one).input_ids for one in TEXTS]
    assert back(TEXTS, TEXTS[::-1]).input_ids == theirs(TEXTS, TEXTS[::-1]).input_ids
    assert back.special_tokens_map == theirs.special_tokens_map

    spelled = ["".join(letter for letter in one if letter not in "<[") for one in TEXTS]
    expected = theirs(spelled, add_special_tokens=False).input_ids

    assert [encoding.ids.tolist() for encoding in tokenizer.encode(spelled)] == expected

    before, after = (
        json.loads((folder / "config.json").read_text()) for folder in (published, exported)
    )
    ids = {key: value for key, value in before.items() if key.endswith("_token_id")}

    assert ids == {key: after.get(key) for key in ids}

    small = {path.name for path in published.iterdir()} - {"config.json", "model.safetensors"}

    assert [
        name for name in small if (exported / name).read_bytes() != (published / name).read_bytes()
    ] == []
