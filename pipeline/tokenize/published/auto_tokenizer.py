"""Read published tokenizers by transformers' `AutoTokenizer`, in a child process.

The process has no network, and runs no code of the published folder. It reads requests from
standard input and writes answers to standard output, one line of JSON each. It does not import
torch, which would take four times as long as everything else.
"""

import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError
from clozeline.files import read_object
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import piece_ids, refuse_growth

DESCRIPTIONS: Final = (
    *(
        "config.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "chat_template.jinja",
    ),
    *("merges.txt", "vocab.bpe"),
)
"""files that complete a vocabulary or model file in the same folder"""
_TRANSFORMERS_NAMES: Final = {"encoder.json": "vocab.json", "vocab.bpe": "merges.txt"}
"""original names of GPT-2's files, and the names that transformers expects: for the original names,
transformers would make an empty tokenizer"""
_SENTENCEPIECE_FILES: Final = (
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "spm.model",
)
_BINARY_SUFFIXES: Final = (".model", ".tiktoken")
_RANK_LINE: Final = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n")
_USUAL_PIECES: Final = {
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("<s>", "[BOS]", "<|begin_of_text|>"),
    "eos": ("</s>", "[EOS]", "<|endoftext|>", "<|end_of_text|>"),
    "unk": ("[UNK]", "<unk>"),
}
"""usual names of special pieces by role, used if neither the transformers class nor the template
names a piece"""
_NO_LENGTH_LIMIT: Final = 10**9
"""in transformers, a `model_max_length` from here on means that rows have no limit"""
_MOST_IDS_PER_PIECE: Final = 2
_MOST_UNUSED_IDS: Final = 2**17
"""most ids without a piece, in addition to `_MOST_IDS_PER_PIECE`; published vocabularies have some
thousand such ids"""
_COPY_AGAIN: Final = "copy the folder again from where it was published"


def describe(
    path: str, tokenizer_class: str | None, texts: list[str], model: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the tokenizer of a folder or file as transformers reads it, and the ids of `texts`.

    `model` replaces the content of the config.json in the folder.

    The answer has `tokenizer` (the JSON of the `tokenizers` library), `roles` (pieces by role),
    `tokenizer_class` (empty if neither the folder nor its model_type says it), `padding_side`,
    `max_length`, `ids` (without special tokens), and `notes`, a line for each assumption.

    Raises:
        ConfigurationError: transformers cannot read the folder, or gives pieces other ids than the
            files do.
    """
    source = Path(path)

    # load links to the files, and find the ids that the files state
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _link_files(source, folder)
        if model is not None:
            (folder / "config.json").unlink(missing_ok=True)  # a link
            (folder / "config.json").write_text(json.dumps(model), encoding="utf-8")
        requested_class, has_class, notes = _name_class(source, folder, tokenizer_class)
        _refuse_distant_ids(source, folder)
        ids_in_files: dict[str, int | None] = dict(_convert_ranks(folder, requested_class))
        tokenizer = _load(source, temporary)
        ids_in_files |= _find_stated_ids(folder, tokenizer.vocab_files_names.values())
        pad_id = read_object(folder / "config.json").get("pad_token_id")
        needed = {name for name in tokenizer.vocab_files_names.values() if (folder / name).exists()}

    backend = tokenizer.backend_tokenizer
    class_name = type(tokenizer).__name__
    if rate := getattr(backend.model, "dropout", None):
        notes.append(f"BPE dropout {rate:g} is off: a text always gets the same ids")
        backend.model.dropout = None

    # compare the ids of transformers with those of the files
    ids: dict[str, int] = backend.get_vocab(with_added_tokens=True)

    if wrong := [
        piece
        for piece, token in ids_in_files.items()
        if piece not in ids or token not in (None, ids[piece])
    ]:
        raise ConfigurationError(
            f"tokenizer.path {source}: {len(wrong):,} of its {len(ids_in_files):,} pieces have "
            f"other ids in {class_name}, such as {wrong[0]!r}: {ids_in_files[wrong[0]]} in the "
            f"files, {ids.get(wrong[0])} in the class; name the right class by "
            "tokenizer.tokenizer_class"
        )

    # note special pieces that the files do not name
    spec = json.loads(backend.to_str())
    refuse_growth(spec, f"tokenizer.path {source}")
    special = {entry["content"]: entry["id"] for entry in spec["added_tokens"] if entry["special"]}
    if appended := [
        piece
        for piece, token in special.items()
        if piece not in ids_in_files and token >= len(ids_in_files)
    ]:
        listed = (
            f"{', '.join(appended[:3])} and {len(appended) - 3} more"
            if len(appended) > 3
            else ", ".join(appended)
        )
        notes.append(f"{class_name} appends {listed}, which the files do not name")

    return {
        "tokenizer": spec,
        "roles": _find_roles(tokenizer, ids, special, backend.encode("a"), pad_id),
        "tokenizer_class": class_name
        if has_class and all((source / name).exists() for name in needed)
        else "",
        "padding_side": tokenizer.padding_side,
        "max_length": tokenizer.model_max_length
        if tokenizer.model_max_length < _NO_LENGTH_LIMIT
        else None,
        "ids": tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else [],
        "notes": notes,
    }


def _refuse_distant_ids(source: Path, folder: Path) -> None:
    """Raise ConfigurationError if ids far exceed the number of pieces.

    Otherwise a library would allocate memory for all ids below them. Files that do not look like a
    tokenizer are passed on, because the library reports them.
    """
    # all ids that the files name
    ids: list[Any] = []
    damage_errors = (LookupError, TypeError, ValueError, AttributeError, IntegrityError)
    with suppress(*damage_errors):
        ids += read_object(folder / "tokenizer_config.json").get("added_tokens_decoder", {})
    for name in ("added_tokens.json", "vocab.json"):
        with suppress(*damage_errors):
            ids += read_object(folder / name).values()

    with suppress(*damage_errors):
        if spec := read_object(folder / "tokenizer.json"):
            ids += [entry["id"] for entry in spec["added_tokens"]]
            pieces = spec["model"]["vocab"]
            ids += pieces.values() if isinstance(pieces, dict) else range(len(pieces))

    for name in ("vocab.txt", *_SENTENCEPIECE_FILES):
        if (folder / name).is_file() and not _is_rank_file(folder / name):
            with suppress(*damage_errors):
                pieces = (
                    _read_lines(folder / name)
                    if name == "vocab.txt"
                    else _read_sentencepiece(folder / name).pieces
                )
                ids += range(len(pieces))
            break

    ranks = next(
        (
            file
            for file in folder.iterdir()
            if file.name.endswith(_BINARY_SUFFIXES) and _is_rank_file(file)
        ),
        None,
    )
    ids += () if ranks is None else _read_ranks(str(ranks)).values()

    numbers = [int(token) for token in ids if isinstance(token, int) or str(token).isdecimal()]
    if numbers and max(numbers) > (most := _MOST_IDS_PER_PIECE * len(numbers) + _MOST_UNUSED_IDS):
        raise ConfigurationError(
            f"tokenizer.path {source}: the id {max(numbers):,} is far above the number of pieces, "
            f"{len(numbers):,}; expected at most {most:,}: {_COPY_AGAIN}"
        )


def _load(source: Path, folder: str) -> Any:
    """Load the tokenizer of a folder by transformers; raise ConfigurationError if it cannot."""
    from transformers import AutoTokenizer, TokenizersBackend

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:  # transformers classes raise errors of any type
        text = " ".join(str(error).replace(f"{folder}/", "").replace(folder, "the folder").split())
        reason = f"transformers cannot read it: {type(error).__name__}: {text}; {_COPY_AGAIN}"
        if "trust_remote_code" in text:
            reason = (
                "its tokenizer needs code of the folder (auto_map), which is never run: name a "
                "class of transformers by tokenizer_class"
            )
        raise ConfigurationError(f"tokenizer.path {source}: {reason}") from error

    if not isinstance(tokenizer, TokenizersBackend):
        raise ConfigurationError(
            f"tokenizer.path {source}: transformers reads it by {type(tokenizer).__name__}, which "
            "the `tokenizers` library cannot represent: give a folder with a tokenizer.json, or "
            "train a tokenizer"
        )

    return tokenizer


def _find_roles(
    tokenizer: Any,
    ids: Mapping[str, int],
    special: Mapping[str, int],
    encoding_with_specials: Any,
    pad_id: Any,
) -> dict[str, str]:
    """Return the piece of each role.

    The transformers class decides first, then the template, `pad_id` from config.json, and last the
    usual names.
    """
    roles = {
        role: piece
        for role, names in _USUAL_PIECES.items()
        for piece in reversed(names)
        if piece in ids
    }
    by_class = {
        role: piece for role in _USUAL_PIECES if (piece := getattr(tokenizer, f"{role}_token"))
    }
    if by_id := [
        piece
        for piece, token in special.items()
        if token == pad_id and piece != by_class.get("unk")
    ]:
        roles["pad"] = by_id[0]

    # cls and sep are the special tokens at both ends of a template, as in BERT's
    sides = encoding_with_specials.sequence_ids
    pieces = encoding_with_specials.tokens
    if 0 in sides and sides[0] is sides[-1] is None and {pieces[0], pieces[-1]} <= special.keys():
        roles |= {"cls": pieces[0], "sep": pieces[-1]}
    return roles | by_class


def _link_files(source: Path, folder: Path) -> None:
    """Link the files of a tokenizer under the names that transformers expects."""
    if source.is_dir():
        files = {file.name: file for file in sorted(source.iterdir()) if file.is_file()}
    else:
        names = {".txt": "vocab.txt", ".json": "tokenizer.json"}
        is_named = source.name in ("vocab.json", "encoder.json")
        name = source.name if is_named else names.get(source.suffix, source.name)
        files = {other: file for other in DESCRIPTIONS if (file := source.parent / other).is_file()}
        files[name] = source

    # add the names that transformers expects
    files |= {
        new: files[old]
        for old, new in _TRANSFORMERS_NAMES.items()
        if old in files and new not in files
    }
    models = [file for name, file in files.items() if name.endswith(".model")]
    if len(models) == 1 and "tokenizer.json" not in files and not _is_rank_file(models[0]):
        files |= dict.fromkeys(
            _SENTENCEPIECE_FILES, models[0]
        )  # each class expects another name of this file
    for name, file in files.items():
        (folder / name).symlink_to(file.resolve())
        if name in DESCRIPTIONS and name.endswith(".json"):
            read_object(file)  # transformers would not name a damaged one
    if not any(
        name in ("vocab.txt", "vocab.json", "tokenizer.json") or name.endswith(_BINARY_SUFFIXES)
        for name in files
    ):
        raise ConfigurationError(
            f"tokenizer.path {source}: expected tokenizer.json, vocab.txt, vocab.json with "
            f"merges.txt, a `.model` or a `.tiktoken` file, got {', '.join(files) or 'no files'}"
        )


def _is_rank_file(path: Path) -> bool:
    """Return whether a file starts with a line of ranks, as `*.tiktoken` and Llama 3's do."""
    with path.open("rb") as file:
        return _RANK_LINE.fullmatch(file.readline(4096)) is not None


def _convert_ranks(folder: Path, chosen: str) -> dict[str, int]:
    """Convert a file of ranks to what the transformers class reads; return the pieces with ranks.

    Without a file of ranks, there are none.
    """
    from transformers import TokenizersBackend
    from transformers.convert_slow_tokenizer import TikTokenConverter
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    ranks = next(
        (
            file
            for file in folder.iterdir()
            if file.name.endswith(_BINARY_SUFFIXES) and _is_rank_file(file)
        ),
        None,
    )
    if ranks is None or (folder / "tokenizer.json").is_file():
        return {}
    converter: Any = TikTokenConverter
    pieces, merges = converter().extract_vocab_merges_from_model(str(ranks))

    if tokenizer_class_from_name(chosen) is TokenizersBackend:
        ranks.rename(folder / "tokenizer.model")
    else:
        ranks.unlink()  # the link
        (folder / "vocab.json").write_text(json.dumps(pieces), encoding="utf-8")
        (folder / "merges.txt").write_text(
            "\n".join(["#version: 0.2", *map(" ".join, merges)]), encoding="utf-8"
        )

    return dict(pieces)


def _read_ranks(path: str) -> dict[bytes, int]:
    """Read a file of ranks: each line has a token in base64 (Whisper: `=` for none) and a rank."""
    lines = [line.split() for line in Path(path).read_bytes().splitlines() if line]
    try:
        return {
            base64.b64decode(token, validate=True): int(rank)
            for token, rank in lines
            if token != b"="
        }
    except ValueError as error:
        raise IntegrityError(
            f"{path}: expected base64, a space and a rank in each line ({error})"
        ) from error


def _name_class(source: Path, folder: Path, given: str | None) -> tuple[str, bool, list[str]]:
    """Return the transformers class, whether the source folder decides it, and assumptions.

    A class that is given or guessed is written into the configuration in `folder`.
    """
    from transformers.models.auto.tokenization_auto import (
        TOKENIZER_MAPPING_NAMES,
        tokenizer_class_from_name,
    )

    config = read_object(folder / "tokenizer_config.json")
    model = read_object(folder / "config.json")
    stated = config.get("tokenizer_class") or model.get("tokenizer_class")
    known_class = stated or TOKENIZER_MAPPING_NAMES.get(str(model.get("model_type")))

    if given:
        if tokenizer_class_from_name(given) is None:
            raise ConfigurationError(
                f"tokenizer.tokenizer_class: transformers has no class {given!r}"
            )
        config.pop("auto_map", None)
        chosen = {"tokenizer_class": given}
        notes = list[str]()
    elif known_class or "auto_map" in config:
        notes = ["auto_map is not used: no code of the folder runs"] if "auto_map" in config else []
        if known_class and not stated:
            notes.append(
                f"no tokenizer_class: read as {known_class}, by the model_type "
                f"{model['model_type']} of config.json"
            )
        return known_class or "", bool(known_class) and source.is_dir(), notes
    elif (folder / "tokenizer.json").is_file():
        notes = [
            "no tokenizer_class: the roles of special tokens follow from their names and the "
            "template"
        ]
        return "", False, notes
    else:
        chosen = _guess_class(source, folder)
        stated = ", ".join(f"{key} {value}" for key, value in chosen.items())
        notes = [
            f"no tokenizer_class and no model_type: {stated}, by the file; set another one by "
            "tokenizer.tokenizer_class"
        ]

    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps(config | chosen), encoding="utf-8")
    return str(chosen["tokenizer_class"]), False, notes


def _guess_class(source: Path, folder: Path) -> dict[str, Any]:
    """Return the transformers class for which a single file was most likely written.

    Raises:
        ConfigurationError: the file fits several transformers classes.
    """
    if (folder / "vocab.txt").is_file():
        pieces = _read_lines(folder / "vocab.txt")
        lower = not any(
            "A" <= letter <= "Z" for piece in pieces if piece[:1] != "[" for letter in piece
        )
        return {"tokenizer_class": "BertTokenizer", "do_lower_case": lower}

    if (folder / "spiece.model").is_file():
        model = _read_sentencepiece(folder / "spiece.model")
        pieces = [piece.piece for piece in model.pieces]
        if model.trainer_spec.model_type == 1 and pieces[:5] == [
            "<pad>",
            "<unk>",
            "[CLS]",
            "[SEP]",
            "[MASK]",
        ]:
            return {"tokenizer_class": "AlbertTokenizer"}

        if (
            model.trainer_spec.model_type == 2
            and model.trainer_spec.byte_fallback
            and pieces[0] == "<unk>"
        ):
            return {"tokenizer_class": "LlamaTokenizer"}
    elif (folder / "vocab.json").is_file():
        from tokenizers.pre_tokenizers import ByteLevel

        if read_object(folder / "vocab.json").keys() >= set(ByteLevel.alphabet()):
            return {"tokenizer_class": "GPT2Tokenizer"}

    raise ConfigurationError(
        f"tokenizer.path {source}: the file does not say how texts are split: name the class by "
        "tokenizer.tokenizer_class, such as T5Tokenizer, XLMRobertaTokenizer, OpenAIGPTTokenizer, "
        "Qwen2Tokenizer or, for the ranks of Llama 3, PreTrainedTokenizerFast"
    )


def _find_stated_ids(folder: Path, names: Iterable[str]) -> dict[str, int | None]:
    """Return pieces and ids from the files; the id is None if the transformers class assigns it."""
    config = read_object(folder / "tokenizer_config.json")
    added: dict[str, int | None] = {
        _piece_text(entry): int(token)
        for token, entry in config.get("added_tokens_decoder", {}).items()
    }
    added |= read_object(folder / "added_tokens.json")
    if spec := read_object(folder / "tokenizer.json"):
        return piece_ids(spec) | added

    # the file that the transformers class reads, else any known file: without files, a class makes
    # an empty tokenizer
    known_files = ("vocab.txt", "vocab.json", *_SENTENCEPIECE_FILES)
    candidates = (
        folder / name
        for name in (*names, *known_files)
        if name in known_files or name.endswith(".model")
    )
    file = next(filter(Path.is_file, candidates), None)
    if file is None or _is_rank_file(file):
        return added
    if file.suffix == ".txt":
        return {piece.rstrip(): token for token, piece in enumerate(_read_lines(file))} | added
    if file.suffix == ".json":
        return read_object(file) | added
    return {
        piece.piece: None
        for piece in _read_sentencepiece(file).pieces
        if piece.type == piece.NORMAL
    } | added


def _read_sentencepiece(path: Path) -> Any:
    from sentencepiece import sentencepiece_model_pb2

    try:
        return sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    except Exception as error:  # protobuf raises an error class of its own
        raise IntegrityError(f"{path.resolve()}: not a SentencePiece model ({error})") from error


def _read_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _piece_text(entry: object) -> str:
    return str(entry["content"] if isinstance(entry, Mapping) else entry)


def main() -> None:
    """Answer requests from standard input; output of libraries goes to standard error.

    An answer to a failed request is `{error, damaged}`; damaged: the files, not the configuration,
    are at fault.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
    }

    sys.modules["torch"] = None  # type: ignore[assignment]
    from transformers.convert_slow_tokenizer import TikTokenConverter

    converter: Any = TikTokenConverter
    # replaces the reader of the package `tiktoken`
    converter.load_tiktoken_bpe = staticmethod(_read_ranks)

    for line in sys.stdin:
        request = json.loads(line)

        try:
            answer = describe(**request)
        except Exception as error:
            reason = str(error)
            if not isinstance(error, ClozelineError):
                reason = (
                    f"tokenizer.path {request['path']}: {type(error).__name__}: {reason}; "
                    f"{_COPY_AGAIN}"
                )
            answer = {"error": reason, "damaged": not isinstance(error, ConfigurationError)}

        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
