"""Detect the library that a published tokenizer belongs to, which defines its ids."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.pipeline.tokenize.published.rank_files import differences, is_rank_file, read_ranks
from clozeline.pipeline.tokenize.tokenizers._preprocessing import DIGIT_COMMAS

_CONFIGS: Final = ("tokenizer_config.json", "special_tokens_map.json")
_ROLES: Final = ("pad", "cls", "sep", "mask", "bos", "eos", "unk")
_NAMES: Final = {
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("<s>", "[BOS]", "<|begin_of_text|>"),
    "eos": ("</s>", "[EOS]", "<|endoftext|>", "<|end_of_text|>"),
    "unk": ("[UNK]", "<unk>"),
}
_SENTINEL: Final = re.compile(r"<extra_(?:id_)?(\d+)>")
_MODEL: Final = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model")
_WORDPIECE: Final = ("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "LayoutLM")
_RANKED: Final = (".tiktoken", ".model")
_PLAIN: Final = ("", "Llama", "CodeLlama", "Gemma", "T5", "MT5", "DebertaV2")
"""Classes with the ids of the `.model` file, followed by their own pieces."""
_FAIRSEQ: Final = ("XLMRoberta", "MBart")
_LAYOUTS: Final = {"Camembert": "camembert", "Pegasus": "pegasus"}
"""Classes with an order of ids of their own."""
_BY_MODEL_TYPE: Final = {"albert": "Albert", "t5": "T5", "mt5": "MT5", "umt5": "T5", "llama": "Llama", "gemma": "Gemma",
                         "deberta-v2": "DebertaV2", "xlm-roberta": "XLMRoberta", "xlm-roberta-xl": "XLMRoberta",
                         "mbart": "MBart"}  # fmt: skip
"""Families with a SentencePiece model, by `model_type` of config.json."""
_T5_SENTINELS: Final = 100
_NO_ROLES: Final = "no tokenizer_config.json: the roles of special tokens are those that their names say"
_MBART_CODES: Final = tuple(
    f"{code[:2]}_{code[2:]}"
    for code in re.findall(
        "....", "arARcsCZdeDEenXXesXXetEEfiFIfrXXguINhiINitITjaXXkkKZkoKRltLTlvLVmyMMneNPnlXXroROruRUsiLKtrTRviVNzhCN"
    )
)
_APPENDED: Final = {"XLMRoberta": ["<mask>"], "MBart": [*_MBART_CODES, "<mask>"], "Camembert": ["<mask>"]}
"""Pieces that a family appends to its file, if its folder does not list them."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A published tokenizer."""

    kind: str
    """file of `pipeline/tokenize/tokenizers/` that gives the ids of its library"""
    files: tuple[Path, ...]
    """the model file, or vocabulary and merges"""
    roles: Mapping[str, str] = field(default_factory=dict)
    """piece by role, from its configuration"""
    behind: Sequence[str] = ()
    """pieces that its configuration appends to the model's, in order of their ids"""
    behind_ids: Sequence[int] = ()
    lower_case: bool | None = None
    """true if WordPiece lower-cases; None if not stated"""
    fairseq: bool = False
    """true for the ids of fairseq"""
    layout: str = ""
    """order of the ids of CamemBERT or PEGASUS"""
    steps: Sequence[str] = ()
    """preprocessing of texts and pieces by its library"""
    guesses: Sequence[str] = ()
    """assumptions that its folder does not state, one per line"""
    pad_id: int | None = None
    """`pad_token_id` of its model's configuration"""
    ranks: bool = False
    """true for a tiktoken file"""
    model_type: str | None = None
    """`model_type` of its model's configuration"""


def find_source(path: Path) -> Source:
    """Return the tokenizer of a file or a Hugging Face directory.

    A `.model` belongs to SentencePiece and a BERT-style `vocab.txt` to WordPiece, even next to a converted
    `tokenizer.json`. A tiktoken file, whatever its name, lacks what a `tokenizer.json` next to it has.

    Raises:
        ConfigurationError: there is no tokenizer, or the preprocessing of its library is unknown.
    """
    if path.is_dir():
        return _directory(path)
    if not path.is_file():
        raise ConfigurationError(f"tokenizer.path {path}: no such file or folder; give that of a tokenizer")
    if path.name in ("vocab.json", "encoder.json"):
        return Source(kind="tokenizer_json", files=(path, _merges(path)))
    if path.suffix in _RANKED and is_rank_file(path):
        return Source(kind="tokenizer_json", files=(path,), ranks=True)
    kinds = {".model": "sentencepiece_model", ".txt": "wordpiece", ".json": "tokenizer_json"}
    if path.suffix not in kinds or path.name == "merges.txt":
        raise ConfigurationError(
            f"tokenizer.path {path}: expected tokenizer.json, vocab.txt, vocab.json or encoder.json next to its "
            f"merges, a `.model` or `.tiktoken` file, or a folder that holds one, got {path.name}"
        )
    return Source(kind=kinds[path.suffix], files=(path,))


def _merges(path: Path) -> Path:
    for name in ("merges.txt", "vocab.bpe"):
        if (merges := path.parent / name).is_file():
            return merges
    raise ConfigurationError(f"tokenizer.path {path}: expected its merges, merges.txt or vocab.bpe, in the same folder")


def _directory(path: Path) -> Source:
    config: dict[str, Any] = {}
    for name in reversed(_CONFIGS):
        config |= _read(path / name)
    family = str(config.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer")
    is_described = bool(config)
    # added tokens by ascending id
    try:
        added = {int(token): _content(entry) for token, entry in config.get("added_tokens_decoder", {}).items()}
        added |= {int(token): piece for piece, token in _read(path / "added_tokens.json").items()}
        config["extra_ids"] = _T5_SENTINELS if config.get("extra_ids") is None else int(config["extra_ids"])
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"tokenizer.path {path}: tokenizer_config.json or added_tokens.json: expected pieces by id, and a number "
            f"as extra_ids ({error}); restore the file"
        ) from error
    behind = {token: added[token] for token in sorted(added) if added[token]}
    facts: dict[str, Any] = {
        "roles": {role: piece for role in _ROLES if (piece := _content(config.get(f"{role}_token")))},
        "behind": list(behind.values()),
        "behind_ids": list(behind),
        "guesses": [] if is_described else [_NO_ROLES],
        "pad_id": (model := _read(path / "config.json")).get("pad_token_id"),
        "model_type": model.get("model_type"),
    }
    json_file, words = path / "tokenizer.json", path / "vocab.txt"
    models = [path / name for name in _MODEL if (path / name).is_file()] or sorted(path.glob("*.model"))
    ranked = [file for file in (*models, *sorted(path.glob("*.tiktoken"))) if is_rank_file(file)]
    if ranked and json_file.is_file():
        facts["guesses"] += differences(_read(json_file), read_ranks(ranked[0]))
        return Source(kind="tokenizer_json", files=(json_file,), **facts)
    if ranked:
        return Source(kind="tokenizer_json", files=(ranked[0],), ranks=True, **facts)
    if models and not family:
        family, guess = _family_of_model(path, models[0].name)
        facts["guesses"].append(guess)
    if models and family == "Albert":
        return Source(kind="sentencepiece_model", files=(models[0],), steps=_albert_steps(config), **facts)
    if models and (family in (*_PLAIN, *_FAIRSEQ) or (family in _LAYOUTS and not json_file.is_file())):
        facts["behind"] = facts["behind"] or _appended(family, config)
        facts |= {"fairseq": family in _FAIRSEQ, "layout": _LAYOUTS.get(family, "")}
        return Source(kind="sentencepiece_model", files=(models[0],), **facts)
    if words.is_file() and (family in _WORDPIECE or (family == "" and not json_file.is_file())):
        lower = config.get("do_lower_case")
        return Source(kind="wordpiece", files=(words,), lower_case=lower, **facts)
    if json_file.is_file():
        if family in _WORDPIECE:
            facts["guesses"].append(f"no vocab.txt, from which {family}Tokenizer reads: {json_file.name} is taken")
        return Source(kind="tokenizer_json", files=(json_file,), **facts)
    if (path / "source.spm").is_file():
        raise ConfigurationError(
            f"tokenizer.path {path}: Marian's vocab.json numbers the pieces of two models, source.spm and target.spm, "
            "which is no single tokenizer: give a folder with its tokenizer.json, or train a tokenizer"
        )
    for name in ("vocab.json", "encoder.json"):
        if (path / name).is_file():
            return Source(kind="tokenizer_json", files=(path / name, _merges(path / name)), **facts)
    if models:
        raise ConfigurationError(
            f"tokenizer.path {path}: the ids that {family}Tokenizer gives with {models[0].name} are not known; give a "
            "folder with its tokenizer.json, or the path of the file for the model's own ids"
        )
    raise ConfigurationError(
        f"tokenizer.path {path}: expected a `.model`, vocab.txt, tokenizer.json, or vocab.json with merges.txt in this "
        f"folder, got {', '.join(sorted(file.name for file in path.iterdir())) or 'nothing'}; give a folder with one"
    )


def _family_of_model(path: Path, name: str) -> tuple[str, str]:
    """Return the family of a SentencePiece model without `tokenizer_class`, and the assumption in words."""
    model_type = str(_read(path / "config.json").get("model_type") or "")
    silent = "no tokenizer_class in tokenizer_config.json"
    if not model_type:
        return "", f"{silent}: the ids are taken to be those of {name} itself"
    family = _BY_MODEL_TYPE.get(model_type, model_type.capitalize())
    return family, f"{silent}: {name} is read as {family}Tokenizer does, by the model_type {model_type} of config.json"


def _appended(family: str, config: Mapping[str, Any]) -> Sequence[str]:
    """Return the pieces that a class appends to its model's; for T5 `extra_ids` sentinels, 100 by default."""
    if family in ("T5", "MT5"):
        return [f"<extra_id_{number}>" for number in reversed(range(config["extra_ids"]))]
    return _APPENDED.get(family, [])


def _albert_steps(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the preprocessing of transformers' `AlbertTokenizer` (version 4, in Python) by its configuration.

    These are the steps of ALBERT's code (arXiv 1909.11942), and the quotes of XLNet.
    """
    steps = {
        "white_space": config.get("remove_space", True),
        "quotes": True,
        "accents": not config.get("keep_accents", False),
        "lower": config.get("do_lower_case", True),
        DIGIT_COMMAS: True,
    }
    return tuple(step for step, is_on in steps.items() if is_on)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigurationError(f"{path}: not JSON ({error}); restore the file, or remove it") from error
    return data if isinstance(data, dict) else {}


def _content(entry: Any) -> str:
    return str(entry["content"] if isinstance(entry, Mapping) else entry) if entry else ""


def roles_by_name(pieces: Iterable[str]) -> dict[str, str]:
    """Return the roles of pieces by their names, such as BERT's `[MASK]` and T5's `</s>`."""
    known = set(pieces)
    roles = {role: next((name for name in names if name in known), None) for role, names in _NAMES.items()}
    return {role: name for role, name in roles.items() if name is not None}


def sentinels_by_name(pieces: Iterable[str]) -> list[str]:
    """Return the sentinels among the pieces, `<extra_id_0>` first: in T5 it has the highest id."""
    numbered = {piece: int(match[1]) for piece in pieces if (match := _SENTINEL.fullmatch(piece))}
    return sorted(numbered, key=numbered.__getitem__)
