"""Folders of tokenizers with every key that the classes of transformers read, one varied at a
time."""

import json

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tests.pipeline.tokenize.published import published_files as files


def write(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)

    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False))

    return folder


def bert(folder, **config):
    files.wordpiece(folder)
    return write(folder, tokenizer_config={"tokenizer_class": "BertTokenizer", **config})


def byte_level(folder, family, **config):
    """Vocabulary and merges whose special pieces are RoBERTa's, after those of the trainer."""
    path = files.byte_level(folder)
    pieces = json.loads(path.read_text())
    more = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces |= {piece: len(pieces) + number for number, piece in enumerate(more)}
    return write(
        folder, vocab=pieces, tokenizer_config={"tokenizer_class": f"{family}Tokenizer", **config}
    )


def suffixed(folder, family, unknown, **config):
    """Pieces that end words by `</w>`."""
    letters = sorted(
        {
            *"".join(files.corpus()),
            *pre_tokenizers.ByteLevel.alphabet(),
        }
        - {" "}
    )
    pieces = [
        *letters,
        *(f"{letter}</w>" for letter in letters),
        "th",
        "the</w>",
        "ca",
        "cat</w>",
        unknown,
    ]

    lines = ["#version: 0.2", "t h", "th e</w>", "c a", "ca t</w>"]
    write(
        folder,
        vocab={piece: number for number, piece in enumerate(pieces)},
        tokenizer_config={"tokenizer_class": f"{family}Tokenizer", "unk_token": unknown, **config},
    )

    (folder / "merges.txt").write_text("\n".join(lines) + "\n")
    return folder


PIECES = {
    "Albert": {
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": 2,
        "eos_id": 3,
        "bos_piece": "[CLS]",
        "eos_piece": "[SEP]",
        "control_symbols": ["[MASK]"],
    },
    "DebertaV2": {
        "pad_id": 0,
        "bos_id": 1,
        "eos_id": 2,
        "unk_id": 3,
        "pad_piece": "[PAD]",
        "bos_piece": "[CLS]",
        "eos_piece": "[SEP]",
        "unk_piece": "[UNK]",
        "user_defined_symbols": ["[MASK]"],
    },
    "T5": files.LIKE_T5,
    "Llama": {
        "model_type": "bpe",
        "byte_fallback": True,
        "vocab_size": 400,
        "remove_extra_whitespaces": False,
        "normalization_rule_name": "identity",
    },
}
NAMES = {
    "Albert": "spiece.model",
    "DebertaV2": "spm.model",
    "T5": "spiece.model",
    "Llama": "tokenizer.model",
}


def model(folder, family, **config):
    files.sentencepiece_model(folder, NAMES[family], **PIECES[family])
    return write(folder, tokenizer_config={"tokenizer_class": f"{family}Tokenizer", **config})


def library(folder, kind, *, added=(), specials=("<unk>", "<pad>", "</s>"), config=None, **parts):
    """A `tokenizer.json` of a model of the library."""
    tokenizer = Tokenizer(kind)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.add_special_tokens(list(specials))
    tokenizer.add_tokens(list(added))
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder if config is None else write(folder, tokenizer_config=config)


def words(unknown="<unk>"):
    pieces = ["<unk>", "<pad>", "</s>", "the", "cat", "sat", ".", "x"]
    return models.WordLevel(
        {piece: number for number, piece in enumerate(pieces)}, unk_token=unknown
    )


def bpe(merges=(("t", "h"), ("th", "e"), ("c", "a")), prefix="", **options):
    known = {c for text in (*files.corpus(), *files.NASTY) for c in text if c > " "}
    letters = ["<unk>", "<pad>", "</s>", *sorted(known)]
    if prefix:
        letters += [f"{prefix}{letter}" for letter in letters[3:]]
    pieces = list(
        dict.fromkeys(
            [
                *letters,
                *(left + right.removeprefix(prefix) for left, right in merges),
            ]
        )
    )
    ids = {piece: number for number, piece in enumerate(pieces)}
    return models.BPE(ids, list(merges), unk_token="<unk>", **options)


def unigram(scheme):
    letters = sorted({c for text in files.corpus() for c in text} - {" "})
    pieces = [
        ("<unk>", 0.0),
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("▁the", -2.0),
        ("▁", -3.0),
        *((c, -8.0) for c in letters),
    ]

    space = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    return {"kind": models.Unigram(pieces, 0, False), "pre_tokenizer": space}


FLAGS = {
    "lstrip": False,
    "rstrip": False,
    "normalized": True,
    "single_word": False,
    "special": False,
}


def added_to_bert(folder, **changes):
    size = len(files.wordpiece(folder / "sized").read_text().split())
    return bert(
        folder / "bert",
        added_tokens_decoder={str(size): {"content": "millpond", **FLAGS, **changes}},
    )


def added_tokens_file(folder):
    size = len(files.wordpiece(folder / "sized").read_text().split())
    return write(bert(folder / "bert"), added_tokens={"watershed": size + 1, "millpond": size})


def special_tokens_map(folder):
    entry = {
        "content": "[unused0]",
        "lstrip": True,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }

    return write(
        bert(folder),
        special_tokens_map={"mask_token": entry, "additional_special_tokens": ["[unused1]"]},
    )


def dropout(folder):
    return library(folder, bpe(dropout=0.5), pre_tokenizer=pre_tokenizers.Whitespace())


def qwen_like(folder):
    return library(
        folder,
        bpe(),
        added=["<think>", "</think>"],
        pre_tokenizer=pre_tokenizers.Whitespace(),
        config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "additional_special_tokens": ["<x>"],
        },
    )


CUT = pre_tokenizers.Whitespace
FOLDERS = {
    "cased": lambda folder: bert(folder, do_lower_case=False),
    "added_tokens.json": added_tokens_file,
    "added": added_to_bert,
    "single word": lambda folder: added_to_bert(folder, single_word=True),
    "strip": lambda folder: added_to_bert(folder, lstrip=True, rstrip=True),
    "not normalized": lambda folder: added_to_bert(
        folder, content="Millpond ÜBER", normalized=False
    ),
    "map": special_tokens_map,
    "roberta": lambda folder: byte_level(folder, "Roberta"),
    "gpt2": lambda folder: byte_level(folder, "GPT2", add_bos_token=True),
    "clip": lambda folder: suffixed(
        folder, "CLIP", "<|endoftext|>", bos_token="<s>", eos_token="</s>"
    ),
    "albert": lambda folder: model(folder, "Albert"),
    "deberta": lambda folder: model(folder, "DebertaV2"),
    "t5 legacy": lambda folder: model(folder, "T5", legacy=True, extra_ids=7),
    "xlm-roberta": lambda folder: files.directory(
        files.sentencepiece_model(folder, "sentencepiece.bpe.model").parent, "XLMRoberta"
    ),
    "llama": lambda folder: model(folder, "Llama"),
    "llama prefix": lambda folder: model(
        folder, "Llama", add_prefix_space=False, add_eos_token=True
    ),
    "words": lambda folder: library(
        folder, words(), normalizer=normalizers.Lowercase(), pre_tokenizer=CUT()
    ),
    **{
        f"unigram {scheme}": lambda folder, scheme=scheme: library(folder, **unigram(scheme))
        for scheme in ("always", "first")
    },
    "bpe": lambda folder: library(
        folder, bpe(), pre_tokenizer=CUT(), decoder=decoders.BPEDecoder()
    ),
    "bpe continued": lambda folder: library(
        folder,
        bpe([("t", "##h"), ("th", "##e")], "##", continuing_subword_prefix="##"),
        pre_tokenizer=CUT(),
    ),
    "bpe of words": lambda folder: library(folder, bpe(ignore_merges=True), pre_tokenizer=CUT()),
    "special merges": lambda folder: library(
        folder,
        bpe([("<", "/"), ("</", "s"), ("</s", ">"), ("</s>", "x"), ("t", "h")]),
        pre_tokenizer=CUT(),
    ),
    "dropout": dropout,
    "behind special ones": qwen_like,
}
