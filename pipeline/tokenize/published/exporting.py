"""Export a tokenizer for other libraries: `tokenizer.json` and `tokenizer_config.json`.

Extensions do it; the main line reads only the types of the form of texts.
"""

import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, normalizers, processors

from clozeline.errors import IntegrityError
from clozeline.files import parse_json, publish, publish_text
from clozeline.pipeline.tokenize.published import importing
from clozeline.pipeline.tokenize.published.folders import (
    GENERATION,
    MODEL,
    SOURCE,
    published_files,
    read_source_json,
)
from clozeline.pipeline.tokenize.published.importing import PROBE_TEXTS
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata


class ExportTemplate(NamedTuple):
    """Special tokens, by role or id, before a text, between two texts, and after the last text."""

    head: tuple[str | int, ...] = ()
    between: tuple[str | int, ...] = ()
    tail: tuple[str | int, ...] = ()


PAIR: Final = ExportTemplate(("cls",), ("sep",), ("sep",))
"""`[CLS] a [SEP] b [SEP]`, as in BERT."""
END: Final = ExportTemplate((), ("eos",), ("eos",))
"""`a </s>`, as in T5."""

Blanks: TypeAlias = Literal["kept", "stripped", "single"]
_STRIP_ENDS: Final = ((r"\A[\t-\r ]+", ""), (r"[\t-\r ]+\Z", ""))
_BLANK_REPLACEMENTS: Final[Mapping[Blanks, Sequence[tuple[str, str]]]] = {
    "kept": (),
    "stripped": _STRIP_ENDS,
    "single": (*_STRIP_ENDS, (r"[\t-\r ]+", " ")),
}
"""replacements in a text, in order: a regular expression (for Python and the library), and the new
text"""
_CONFIG_FILE: Final = "tokenizer_config.json"
_MODEL_FILE: Final = "tokenizer.json"
_LENGTH_KEY: Final = "model_max_length"
_CARRIED_KEYS: Final = (
    *(
        "chat_template",
        "model_max_length",
        "padding_side",
        "truncation_side",
        "clean_up_tokenization_spaces",
    ),
    *(
        "add_bos_token",
        "add_eos_token",
        "model_input_names",
        "pad_to_multiple_of",
        "spaces_between_special_tokens",
    ),
    "split_special_tokens",
)
"""keys of tokenizer_config.json that do not depend on the transformers class"""
_COMPARED_PROPERTIES: Final = ("tokenizer", "roles", "padding_side")
"""properties that must be equal if transformers reads a publisher's files in their folder and next
to the exported model"""


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """The form of texts in the training rows of a model, which its tokenizer must reproduce."""

    frame: ExportTemplate | None = None
    """special tokens around texts, unless the publisher's files are written back; default: the
    template of a published `tokenizer.json`, else `PAIR` if the tokenizer has cls and sep, else no
    tokens"""
    start: str | int | None = "bos"
    """role or id of the special token that programs may put before a text, recorded as `bos_token`;
    None: no such token. The publisher's files keep theirs"""
    max_length: int | None = None
    """most tokens in a row that the model reads, recorded as `model_max_length`; None: unknown"""
    cuts_texts: bool = False
    """record `max_length` in the publisher's files, too, because the model was trained on texts cut
    to this length"""
    blanks: Blanks = "kept"
    """white space of texts in the rows: unchanged, stripped at both ends, or single spaces between
    words. The written tokenizer does the same, unless the publisher's files are written back"""
    type_ids: bool = False
    """whether the model reads segment ids, as BERT does"""


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """Agreement of an exported tokenizer, as `AutoTokenizer` loads it, with the original."""

    texts: int
    """number of compared texts"""
    differing: Sequence[str] = ()
    """texts to which the exported tokenizer gives other ids"""
    published: Sequence[str] = ()
    """files of the publisher that were written back unchanged"""
    changed: Sequence[str] = ()
    """files of the publisher that were replaced, because the vocabulary has more pieces or the
    files name no class"""
    edited: Sequence[str] = ()
    """keys of the publisher's tokenizer_config.json that were changed, with their new values"""


def export_tokenizer(
    folder: Path,
    out: Path,
    form: TextForm | None = None,
    *,
    texts: Sequence[str] = PROBE_TEXTS,
    model: Mapping[str, Any] | None = None,
) -> ProbeReport:
    """Write a tokenizer that `AutoTokenizer` of transformers loads offline, without our code.

    The files of an imported tokenizer are written back unchanged. If it has more pieces, or if its
    files next to this model name no class or another class, `tokenizer.json` and the configuration
    are written again.

    Sentinels and modes become additional special tokens. Special tokens strip the space before
    them, so the ids next to a mask or a sentinel are as in shards. The written file is loaded again
    and compared on `texts` with `split_special_tokens=True`: special tokens in a text are ordinary
    text, as in shards. An imported tokenizer is also compared with the publisher's files on texts
    with special tokens.

    Args:
        folder: tokenizer folder, written by `train_tokenizer` or `import_tokenizer`.
        out: output directory, created if missing.
        form: form of the texts in training rows; default: `TextForm()`.
        texts: texts to compare; default: 200 in many scripts.
        model: config.json of the model, whose type may select the class of the tokenizer; default:
            that of the publisher.

    Raises:
        ConfigurationError: the tokenizer lacks the tokens of the template.
        IntegrityError: a piece would get another id in the written file, or the publisher's files
            are damaged.
    """
    # copy the publisher's files that stay valid
    tokenizer = load_tokenizer(folder)
    published = PublishedMetadata.find(folder)
    form = form or TextForm()
    read = _load_published(folder, published, tokenizer, model)
    copied = (
        _portable_files(folder)
        if read is None
        else [name for name in published_files(folder) if name != Path(MODEL)]
    )
    for name in copied:
        with publish(out / name) as temporary:
            shutil.copyfile(folder / SOURCE / name, temporary)

    # the publisher's files describe the tokenizer: only the length may change
    if read is not None:
        differing = _find_differing_texts(tokenizer, read, texts)
        edited = list[str]()
        if (
            form.cuts_texts
            and form.max_length is not None
            and _record_length(out / _CONFIG_FILE, form.max_length)
        ):
            edited.append(f"{_LENGTH_KEY}: {form.max_length}")
            copied = [name for name in copied if name != Path(_CONFIG_FILE)]
        return ProbeReport(
            texts=len(texts), differing=differing, published=list(map(str, copied)), edited=edited
        )

    # write tokenizer.json and its configuration
    library = _build_library(tokenizer, published, form)
    theirs = [name for name in published_files(folder) if name != Path(MODEL)]
    config = _config(
        tokenizer, published, form.start if not theirs else "bos", type_ids=form.type_ids
    )
    # keys about rows and texts stay as published, keys of the transformers class do not
    stated = read_source_json(folder, _CONFIG_FILE)
    config |= {key: stated[key] for key in _CARRIED_KEYS if key in stated}
    if form.max_length is not None and (form.cuts_texts or _LENGTH_KEY not in config):
        config[_LENGTH_KEY] = form.max_length
    text = json.dumps(config, ensure_ascii=False, indent=2, sort_keys=True)
    publish_text(out / _MODEL_FILE, library.to_str(pretty=True))
    publish_text(out / _CONFIG_FILE, text + "\n")

    # load the files again and compare
    written = tokenizers.Tokenizer.from_file(str(out / _MODEL_FILE))
    compared = _compare_special_tokens(written, folder / SOURCE) if theirs else {}
    differing = _find_differing_texts(tokenizer, written, texts, form.blanks)
    return ProbeReport(
        texts=len(texts) + len(compared),
        differing=[*differing, *(text for text, same in compared.items() if not same)],
        published=[str(name) for name in copied],
        changed=[str(name) for name in theirs if name not in copied],
    )


def _may_be_written_back(folder: Path, published: PublishedMetadata) -> bool:
    """Return whether the publisher's files name a class, and no piece was added to them."""
    has_files = any(name != Path(MODEL) for name in published_files(folder))
    return has_files and bool(published.tokenizer_class) and not published.added


def _portable_files(folder: Path) -> list[Path]:
    """Return the publisher's files that do not depend on the vocabulary's format.

    These are chat templates and generation defaults.
    """
    return [
        name
        for name in published_files(folder)
        if name.suffix == ".jinja" or name == Path(GENERATION)
    ]


def _load_published(
    folder: Path,
    published: PublishedMetadata,
    tokenizer: Tokenizer,
    model: Mapping[str, Any] | None,
) -> tokenizers.Tokenizer | None:
    """Return the publisher's tokenizer, as transformers reads its files next to a model.

    None: next to this model, transformers would read another tokenizer.
    """
    if not _may_be_written_back(folder, published):
        return None
    source = _describe(folder / SOURCE, published.tokenizer_class)
    if "error" in source:
        raise IntegrityError(source["error"])
    answer = _describe(folder / SOURCE, None, model) if model else source
    # the user may have named further roles
    expected = {**source, "roles": _role_pieces(published, tokenizer)}
    if any(answer.get(key) != expected[key] for key in _COMPARED_PROPERTIES):
        return None
    return tokenizers.Tokenizer.from_str(json.dumps(answer["tokenizer"]))


def _build_library(
    tokenizer: Tokenizer, published: PublishedMetadata, form: TextForm
) -> tokenizers.Tokenizer:
    """Return a tokenizer of the library `tokenizers` that reads texts as in training rows."""
    library = tokenizer.to_tokenizers()
    vocabulary = tokenizer.vocabulary
    frame = form.frame
    _add_specials(library, tokenizer, published.added)

    if frame is None:
        has_template = library.post_processor is not None  # from a published file
        has_pair = not has_template and {"cls", "sep"} <= vocabulary.specials.keys()
        frame = PAIR if has_pair else ExportTemplate()

    if any(frame):
        library.post_processor = _make_template(tokenizer, frame)
    _trim_offsets(library, framed=any(frame))
    _normalize_blanks(library, form.blanks)
    library.no_truncation()
    library.no_padding()
    return library


def _describe(
    folder: Path, tokenizer_class: str | None, model: Mapping[str, object] | None = None
) -> dict[str, Any]:
    path = str(folder.absolute())
    request: dict[str, object] = {
        "path": path,
        "tokenizer_class": tokenizer_class,
        "texts": [],
        "model": model,
    }
    answer: dict[str, object] = json.loads(importing.describe_in_child(request))
    return answer


def _compare_special_tokens(written: tokenizers.Tokenizer, source: Path) -> dict[str, bool]:
    """Compare ids of texts with the publisher's special tokens, which may strip spaces.

    Return for each text whether they equal the ids of the publisher's files. Files that do not name
    their class are not compared.
    """
    answer = _describe(source, None)
    if not answer.get("tokenizer_class"):
        return {}
    theirs = tokenizers.Tokenizer.from_str(json.dumps(answer["tokenizer"]))
    pieces = [entry["content"] for entry in answer["tokenizer"]["added_tokens"] if entry["special"]]
    texts = [f"the {piece}\n{piece} \u00a0the{piece}the" for piece in pieces]

    try:
        return {text: _ids(theirs, text) == _ids(written, text) for text in texts}
    except Exception as error:  # the library raises no narrower class
        raise IntegrityError(
            f"{source}: its tokenizer cannot read text ({error}); import the model again"
        ) from error


def _ids(model: tokenizers.Tokenizer, text: str) -> list[int]:
    return list(model.encode(text, add_special_tokens=False).ids)


def _add_specials(
    model: tokenizers.Tokenizer, tokenizer: Tokenizer, added: Collection[str]
) -> None:
    """Mark all pieces without text as special, in order of their ids, and check every id.

    Pieces of the publisher keep their flags; `added` are the pieces of the import.
    """
    vocabulary = tokenizer.vocabulary
    known = {
        token
        for token, piece in model.get_added_tokens_decoder().items()
        if piece.content not in added
    }

    model.add_special_tokens(
        [
            AddedToken(tokenizer.piece(token), special=True, normalized=False, lstrip=True)
            for token in np.flatnonzero(vocabulary.special).tolist()
            if token not in known
        ]
    )

    # compare all ids with the original
    written = model.get_vocab(with_added_tokens=True)

    for token in range(vocabulary.size):
        if (other := written.get(tokenizer.piece(token))) != token:
            raise IntegrityError(
                f"{_MODEL_FILE}: piece {tokenizer.piece(token)!r} has id {token}, but would get "
                f"{other} in the file; the vocabulary cannot be exported"
            )

    if len(written) != vocabulary.size:
        raise IntegrityError(
            f"{_MODEL_FILE}: expected {vocabulary.size} pieces, got {len(written)}"
        )


def _make_template(tokenizer: Tokenizer, frame: ExportTemplate) -> Any:
    id_of = tokenizer.vocabulary.id_of
    ids = {
        role: role
        if isinstance(role, int)
        else id_of(role, "the special tokens around exported rows")
        for roles in frame
        for role in roles
    }

    pieces = {role: tokenizer.piece(token) for role, token in ids.items()}
    head = [pieces[role] for role in frame.head]
    between = [pieces[role] for role in frame.between]
    tail = [pieces[role] for role in frame.tail]
    return processors.TemplateProcessing(
        single=[*head, "$A", *tail],
        pair=[*head, "$A", *between, "$B:1", *(f"{piece}:1" for piece in tail)],
        special_tokens=[(piece, ids[role]) for role, piece in pieces.items()],
    )


def _role_pieces(published: PublishedMetadata, tokenizer: Tokenizer) -> dict[str, str]:
    """Return the piece of each role, without a pad that only the rows here need."""
    roles = {role: tokenizer.piece(token) for role, token in tokenizer.vocabulary.specials.items()}
    return {
        role: piece for role, piece in roles.items() if role != "pad" or not published.pad_by_eos
    }


def _record_length(path: Path, length: int) -> bool:
    """Write a length into a configuration; return whether the file changed. Other keys stay."""
    config = parse_json(path.read_text(encoding="utf-8")) if path.exists() else {}
    if config.get(_LENGTH_KEY) == length:
        return False
    publish_text(
        path, json.dumps({**config, _LENGTH_KEY: length}, ensure_ascii=False, indent=2) + "\n"
    )
    return True


def _config(
    tokenizer: Tokenizer, published: PublishedMetadata, start: str | int | None, *, type_ids: bool
) -> dict[str, Any]:
    vocabulary = tokenizer.vocabulary
    pieces = _role_pieces(published, tokenizer)
    first = tokenizer.piece(start) if isinstance(start, int) else pieces.get(start or "")
    pieces = {role: piece for role, piece in pieces.items() if role != "bos"}
    if first is not None:
        pieces["bos"] = first

    marks = [*vocabulary.sentinels, *vocabulary.modes.values()]
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": piece for role, piece in pieces.items()},
        "additional_special_tokens": [tokenizer.piece(token) for token in marks],
        "clean_up_tokenization_spaces": False,
        "padding_side": published.padding_side,
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if type_ids else []),
            "attention_mask",
        ],
    }

    return config if published.max_length is None else {**config, _LENGTH_KEY: published.max_length}


def _trim_offsets(library: tokenizers.Tokenizer, *, framed: bool) -> None:
    """Let offsets of byte-level tokens start and end at visible characters, for tagging pipelines.

    The offsets of a published template stay unchanged.
    """
    if library.post_processor is not None and not framed:
        return
    splitter = json.loads(library.to_str())["pre_tokenizer"] or {}
    for part in (splitter, *splitter.get("pretokenizers", ())):
        if part["type"] == "ByteLevel":
            trimming = processors.ByteLevel(
                trim_offsets=True, add_prefix_space=part["add_prefix_space"]
            )
            template = library.post_processor
            library.post_processor = (
                trimming if template is None else processors.Sequence([trimming, template])
            )


def _normalize_blanks(library: tokenizers.Tokenizer, blanks: Blanks) -> None:
    """Normalize the white space of texts, unless the tokenizer already does."""
    if _ids(library, _spread(blanks)) == _ids(library, _prepare(_spread(blanks), blanks)):
        return
    steps = [
        normalizers.Replace(Regex(pattern), content)
        for pattern, content in _BLANK_REPLACEMENTS[blanks]
    ]
    before = library.normalizer
    library.normalizer = normalizers.Sequence([*steps, *([] if before is None else [before])])


def _spread(blanks: Blanks) -> str:
    return " a " if blanks == "stripped" else " a  \n a "


def _prepare(text: str, blanks: Blanks) -> str:
    for pattern, content in _BLANK_REPLACEMENTS[blanks]:
        text = re.sub(pattern, content, text)
    return text


def _find_differing_texts(
    tokenizer: Tokenizer, model: tokenizers.Tokenizer, texts: Sequence[str], blanks: Blanks = "kept"
) -> list[str]:
    """Return the texts to which an exported tokenizer gives other ids.

    Special tokens in a text are ordinary text, as in shards.
    """
    model.encode_special_tokens = True  # `split_special_tokens` of transformers
    pairs = zip(texts, tokenizer.encode([_prepare(text, blanks) for text in texts]), strict=True)
    return [text for text, each in pairs if each.ids.tolist() != _ids(model, text)]
