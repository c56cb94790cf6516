"""Tokenizers as other projects publish them, made here by their owners' trainers, and texts to
encode."""

import json
import random

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

WORDS = "the cat sat unaffable mat Köln running 中文 東京 ночь naïve ΟΔΟΣ x1 ...".split()
SPECIALS = (
    "<pad> <cls> <sep> <mask> <s> </s> <unk> [MASK] [UNK] <extra_id_0> <|endoftext|>"
).split()

NASTY = [
    "",
    " ",
    "  ",
    "\n",
    "\t",
    "the cat",
    " the cat",
    "the  cat ",
    "\n\nthe\r\ncat\t",
    "un\x0baffable \x1c x\x7f",
    "\ufeffthe\u200b\u00ad",
    "ΟΔΟΣ ΑΘΗΝΑΣ. Σ ΑΣΑ",
    "İstanbul ıI",
    "e\u0301\u0323 a\u0308",
    "\u0301",
    "中文東京 の 한국어",
    "ภาษาไทย",
    "👩\u200d👧 ½ ﬁ № ①",
    "\U0010ffff\ue000\u0378",
    "\ufffdx\ufffe",
    "\u2581",
    "a\u2581b \u2581",
    "\u00a0\u3000x\u2028y\u2029",
    "a" * 201,
    "a" * 200,
    "Ġthe Ċ",
    "3.14159 1,000",
    "don't",
    *SPECIALS,
    " ".join(SPECIALS),
    "".join(SPECIALS),
    "the [MASK] sat</s>",
]


def corpus():
    draw = random.Random(1)
    syllables = "lo wer ne st wi de ka ta mi ro un ing".split()
    words = [
        *WORDS,
        *("".join(draw.choices(syllables, k=3)) for _ in range(60)),
    ]
    return [" ".join(draw.choices(words, k=30)) for _ in range(80)]


def wordpiece(folder, name="vocab.txt", *, cased=False):
    """BERT's kind."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted(
        set("abcdefghijklmnopqrstuvwxyz0123456789.,-[]<>|/'" + "οδοςσαθην" + "中文東京" + "ночь")
    )
    pieces = ["una", "##ffa", "##ble", "the", "cat", "run", "##ning", "sat", "mat", "naive"]
    pieces += ["Köln", "The"] if cased else []
    specials = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lines = [*specials, *pieces, *letters, *(f"##{letter}" for letter in letters)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def byte_level(folder, vocabulary="vocab.json", merges="merges.txt"):
    """GPT-2's kind, its end of text the last id."""
    folder.mkdir(parents=True, exist_ok=True)
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    model.train_from_iterator(corpus(), trainer)
    facts = json.loads(model.to_str())["model"]
    ids = {**facts["vocab"], "<|endoftext|>": len(facts["vocab"])}
    (folder / vocabulary).write_text(json.dumps(ids, ensure_ascii=False))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in facts["merges"])]
    (folder / merges).write_text("\n".join(lines) + "\n")
    return folder / vocabulary


def sentencepiece_model(folder, name="spiece.model", **options):
    """The kind of T5, XLM-R or Llama, by its options."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "model_type": "unigram",
        "vocab_size": 120,
        "minloglevel": 2,
        "num_threads": 1,
        **options,
    }

    with (folder / name).open("wb") as file:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(corpus()), model_writer=file, **options
        )

    return folder / name


LIKE_T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def t5_model(folder, name="spiece.model", **options):
    """T5's kind, next to the configuration that says so."""
    path = sentencepiece_model(folder, name, **LIKE_T5, **options)
    directory(folder, "T5", {"extra_ids": 0})
    return path


def unigram_json(folder, **changes):
    """PEGASUS's kind: it would cut every text to four tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = sorted({c for text in corpus() for c in text} - {" "})
    specials = ["<pad>", "</s>", "<unk>", "<mask_1>"]
    pieces = [
        *((piece, 0.0) for piece in specials),
        ("▁the", -2.0),
        ("▁cat", -2.5),
        ("▁", -3.0),
    ]
    model = Tokenizer(
        models.Unigram(
            [*pieces, *((letter, -8.0) for letter in letters)],
            2,
            False,
        )
    )
    model.normalizer = normalizers.NFKC()
    model.pre_tokenizer = pre_tokenizers.Metaspace()
    model.add_special_tokens(specials)
    model.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    model.enable_truncation(4)
    model.enable_padding(length=9, pad_token="<pad>")
    facts = {**json.loads(model.to_str()), **changes}
    (folder / "tokenizer.json").write_text(json.dumps(facts, ensure_ascii=False))
    return folder / "tokenizer.json"


def directory(folder, family, config=None):
    """The folder with its configuration."""
    facts = {"tokenizer_class": f"{family}Tokenizer", **(config or {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return folder
