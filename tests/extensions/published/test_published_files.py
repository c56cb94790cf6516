"""Published files travel: what an export writes of a tokenizer whose vocabulary is the publisher's
is what was read."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
)

from clozeline.extensions.published.commands.export_model import main
from clozeline.extensions.published.commands.import_model import main as import_main
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.inference.generated_text import find_end_ids
from tests.extensions.published.peers import saved
from tests.pipeline.tokenize.published import published_files as files

CHAT = "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
TEXTS = [
    "the cat sat",
    " the cat\n",
    "the </s> cat",
    "the <mask> cat",
    "a <mask>\nb",
    "[MASK] [SEP]",
    "\n",
    "",
]


def published(folder, case):
    """Write a model of transformers with the files of a tokenizer; return the small ones."""
    decoder = case in ("gpt2", "llama")
    saved(folder, case, vocab_size=420, **({"pad_token_id": None} if decoder else {}))
    pieces = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
    library = Tokenizer(models.BPE(unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=pieces, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(files.corpus(), trainer)
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 1), ("</s>", 2)],
    )

    library.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
    specials = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}

    if not decoder:
        specials |= {
            "cls_token": "<s>",
            "sep_token": "</s>",
            "mask_token": "<mask>",
            "pad_token": "<pad>",
        }

    PreTrainedTokenizerFast(
        tokenizer_object=library,
        padding_side="left",
        model_max_length=77,
        chat_template=CHAT,
        **specials,
    ).save_pretrained(folder)

    (folder / "generation_config.json").write_text('{"max_length": 9}')  # encoders have one, too
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/rag.jinja").write_text("{{ messages[0].content }}")

    if decoder:
        GenerationConfig(
            eos_token_id=[2, 5], temperature=0.6, top_p=0.9, do_sample=True
        ).save_pretrained(folder)

    small = {path for path in folder.rglob("*") if path.suffix in (".json", ".jinja")}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in small
        if path.name != "config.json"
    }


@pytest.mark.parametrize("case", ["bert", "roberta", "gpt2", "llama"])
def test_small_files_come_back_as_they_were(tmp_path, case, capsys):
    before = published(tmp_path / "in", case)

    assert import_main([f"{tmp_path}/in", f"{tmp_path}/ours"]) == 0
    assert main([f"{tmp_path}/ours", f"{tmp_path}/out"]) == 0
    assert {name: (tmp_path / "out" / name).read_bytes() for name in before} == before

    said = capsys.readouterr().out

    assert all(name in said for name in before)

    theirs, ours = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("in", "out"))

    assert [ours(text).input_ids for text in TEXTS] == [theirs(text).input_ids for text in TEXTS]
    assert (ours.padding_side, ours.model_max_length, ours.chat_template) == (
        "left",
        77,
        theirs.chat_template,
    )
    assert ours.pad_token_id == theirs.pad_token_id

    config = json.loads((tmp_path / "out/config.json").read_text())

    assert config["pad_token_id"] == json.loads((tmp_path / "in/config.json").read_text()).get(
        "pad_token_id"
    )


def test_end_ids_of_config_json_count_where_no_generation_defaults_are(tmp_path):
    published(tmp_path / "in", "llama")
    (tmp_path / "in/generation_config.json").unlink()
    config = json.loads((tmp_path / "in/config.json").read_text()) | {"eos_token_id": [2, 5]}
    (tmp_path / "in/config.json").write_text(json.dumps(config))

    assert AutoModelForCausalLM.from_pretrained(tmp_path / "in").generation_config.eos_token_id == [
        2,
        5,
    ]
    assert import_main([f"{tmp_path}/in", f"{tmp_path}/ours"]) == 0
    assert find_end_ids(load_tokenizer(tmp_path / "ours/tokenizer")) == {2, 5}
    assert main([f"{tmp_path}/ours", f"{tmp_path}/out"]) == 0
    assert json.loads((tmp_path / "out/config.json").read_text())["eos_token_id"] == [2, 5]
