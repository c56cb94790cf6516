"""Import a published tokenizer as `tokenizer.json`, assign roles and add special tokens."""

import json
import re
import shutil
import signal
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError
from clozeline.files import writing
from clozeline.hub import origin_of
from clozeline.pipeline.tokenize.published.auto_tokenizer import DESCRIPTIONS
from clozeline.pipeline.tokenize.published.folders import (
    copy_source_files,
    find_clozeline_tokenizer,
)
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import SPECIAL_PIECES
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import (
    TokenizerJson,
    hide_pieces,
    piece_ids,
    read_tokenizer_json,
)
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS
from clozeline.process import ChildLimits, python_command, run_child

_SENTENCES: Final = (
    "The kitten is chasing the ball, isn't it?",
    "In 1969, 1,000,000 people paid $3.50 (about £2.90) each.",
    "Hard work leads to success. Success brings happiness.",
    "def area(r):\n    return 3.14159 * r ** 2  # π r²",
    "https://example.org/a/b?c=d&e=%20f#g user@example.org",
    "Der Straßenbahnfahrer aß süße Äpfel in Köln.",
    "L'été dernier, nous étions à Besançon – c'était très agréable.",
    "El niño comió piñas; ¿cuántas? ¡Muchísimas!",
    "Zażółć gęślą jaźń, rzekł wędrowiec.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ο Σίσυφος ανέβηκε στον λόφο. ΟΔΟΣ ΑΘΗΝΑΣ",
    "İstanbul'da ılık bir gün; ISPARTA ve Iğdır.",
    "שלום עולם, מה שלומך היום?",
    "مرحبا بالعالم، كيف حالك؟ ١٢٣",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "สวัสดีชาวโลก วันนี้อากาศดี",
    "他们在公园里散步，天气很好。",
    "これはペンです。東京へ行きます。",
    "안녕하세요 세계, 오늘은 날씨가 좋습니다.",
    "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 👍🏽 ½ ﬁne № ① …“quoted”",
)


def _vary(text: str) -> tuple[str, ...]:
    """Return ten forms of a sentence: white space, capitals, special pieces, long words."""
    first, _, others = text.partition(" ")
    return (
        text,
        f"  {text} ",
        f"{first}  {others}   {text}",
        f"{text}\n\n{text}\n",
        f"\t{text}\r\n{text}",
        f"{text.upper()} {first}",
        f"({unicodedata.normalize('NFD', text)})",
        f"{first} [MASK] <mask> </s> <extra_0> {others}",
        f"{first}\u2581{others}\u00a0{text}\u3000.",
        text.replace(" ", "") * 3,
    )


PROBE_TEXTS: Final = tuple(form for text in _SENTENCES for form in _vary(text))
"""200 texts to compare tokenizers on: 20 sentences in many scripts, each in ten forms"""
ALGORITHM: Final = "tokenizer_json"
_CHILD: Final = "clozeline.pipeline.tokenize.published.auto_tokenizer"
_CHILD_BYTES: Final = 4 << 30
"""memory limit of the child process; the largest published tokenizers, with 262,000 pieces, need
less than half of it"""
_SENTINEL_PIECE: Final = re.compile(r"<extra_(?:id_)?(\d+)>")
_TEXTS: Final = (
    *PROBE_TEXTS,
    "word " * 300,
    "one\r\ntwo\u3000three\u00a0four\u200dfive e\u0301\u0323 中文の本 \ufeffsix",
)
_ALL_BYTES: Final = " ".join(
    map(
        chr, [*range(0x20, 0x800), *range(0xFFF, 0xD800, 0x1000), *range(0xE001, 0x110000, 0x1FFFF)]
    )
)
"""letters, most of them in no vocabulary, whose UTF-8 has every byte that a text can have"""


def import_tokenizer(
    source: Path,
    folder: Path,
    *,
    specials: Mapping[str, str] | None = None,
    sentinels: str | Sequence[str] = (),
    add: Collection[str] = (),
    pad_by_eos: bool = False,
    tokenizer_class: str | None = None,
) -> Tokenizer:
    """Write a tokenizer folder with the ids of transformers' `AutoTokenizer`, and load it.

    A tokenizer of Clozeline is copied.

    Args:
        source: Hugging Face folder, or one of its files: `tokenizer.json`, `vocab.txt`,
            `vocab.json` or `encoder.json` next to its merges, a SentencePiece `.model`, a tiktoken
            file; or a path that `find_clozeline_tokenizer` accepts.
        folder: output folder for `tokenizer.json`, `published.json`, `vocabulary.json` and `name`.
        specials: special pieces by role (`pad cls sep mask bos eos unk`), in addition to those of
            the source.
        sentinels: pieces in order of use, or a pattern with `{}` for their numbers (`[unused{}]`);
            default: pieces with names such as `<extra_id_0>`.
        add: roles to append if the vocabulary lacks them: specials, `sentinels`, `modes`.
        pad_by_eos: pad rows with the end token if there is no pad token, as in many decoders; no
            model reads it there.
        tokenizer_class: class of transformers for a single file, or instead of the class that the
            folder names.

    Raises:
        ConfigurationError: transformers cannot read the source, its ids are not unique, or a named
            piece is missing.
        IntegrityError: a file is damaged.
    """
    ours = find_clozeline_tokenizer(source)
    keys = {
        "specials": specials,
        "sentinels": sentinels,
        "add": add,
        "tokenizer_class": tokenizer_class,
    }

    where = ours.folder if ours else source

    with (
        writing(folder),
        _name_original_paths({folder / TokenizerJson.FILE: source, folder: where}),
    ):
        # copy a tokenizer of Clozeline, or read a published one
        texts: Mapping[str, Sequence[int]] = {}

        if ours is not None:
            for file in ours.files:
                target = folder / file.relative_to(ours.folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)

            tokenizer: Tokenizer = load_tokenizer(folder)
            roles = tokenizer.vocabulary.specials
            is_published = ours.algorithm == ALGORITHM
            lacks_pad = pad_by_eos and is_published and "pad" not in roles and "eos" in roles
            if not any(keys.values()) and not lacks_pad:
                return tokenizer
            if not is_published or tokenizer_class:
                given = ", ".join(key for key, value in keys.items() if value)
                raise ConfigurationError(
                    f"tokenizer.path {source}: models were trained with the ids of this tokenizer "
                    f"of Clozeline ({ours.algorithm}), so it cannot be changed: leave out {given}"
                )

            spec = read_tokenizer_json(folder / TokenizerJson.FILE)
            published = PublishedMetadata.load(folder)
        else:
            spec, published, texts = _read_published(source, tokenizer_class)
            copy_source_files(source, folder)

        # assign roles, add tokens and write the files
        spec, published = _assign_roles(
            spec, published, specials or {}, sentinels, add, pad_by_eos=pad_by_eos
        )
        text = json.dumps(spec, ensure_ascii=False, indent=1)
        (folder / TokenizerJson.FILE).write_text(text + "\n", encoding="utf-8")
        published.save(folder)

        # compare the written tokenizer with the source
        written: Any = TokenizerJson.load(folder)
        _check_unknown(written)
        _check_ids(written, texts)
        save_tokenizer(written, ALGORITHM, folder)
        return load_tokenizer(folder)


def source_files(source: Path) -> list[Path]:
    """Return the files that define a tokenizer: all of a folder, or a file and its neighbors."""
    if not source.exists():
        raise ConfigurationError(
            f"tokenizer.path {source}: no such file or folder; give the path of a tokenizer"
        )

    if (ours := find_clozeline_tokenizer(source)) is not None:
        return list(ours.files)
    names = (
        source.iterdir()
        if source.is_dir()
        else (source, *(source.parent / name for name in DESCRIPTIONS))
    )

    return sorted(filter(Path.is_file, names))


def _read_published(
    source: Path, tokenizer_class: str | None
) -> tuple[dict[str, Any], PublishedMetadata, dict[str, list[int]]]:
    """Read a published tokenizer by transformers.

    Return its `tokenizer.json` with a piece for each id, its metadata, and the ids that it gives to
    `_TEXTS`.
    """
    state = tuple(
        (file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in source_files(source)
    )
    answer = json.loads(_describe_cached(str(source.absolute()), tokenizer_class, state))
    if "error" in answer:
        raise (IntegrityError if answer["damaged"] else ConfigurationError)(answer["error"])

    # give each id a piece, and note what changes
    spec = {**answer["tokenizer"], "truncation": None, "padding": None}
    notes = answer["notes"]
    fillers = _fill_holes(spec, source)
    if fillers:
        notes.append(
            f"{fillers:,} ids have no piece, or the piece of a later id: no text becomes them"
        )

    special = {entry["content"] for entry in spec["added_tokens"] if entry["special"]}
    _, lost = hide_pieces(spec, special | set(answer["roles"].values()))

    if lost:
        notes.append(
            f"{lost:,} merges of letters to a special piece are dropped: text never becomes one"
        )

    published = PublishedMetadata(
        specials=answer["roles"],
        source=name
        if (name := origin_of(source if source.is_dir() else source.parent)).startswith("hf://")
        else "",
        **{
            name: answer[name]
            for name in ("tokenizer_class", "padding_side", "max_length", "notes")
        },
    )

    return spec, published, dict(zip(_TEXTS, answer["ids"], strict=True))


@lru_cache(maxsize=4)
def _describe_cached(path: str, tokenizer_class: str | None, _state: tuple[object, ...]) -> str:
    """Describe a tokenizer once: the stages of a run need it several times."""
    return describe_in_child({"path": path, "tokenizer_class": tokenizer_class, "texts": _TEXTS})


def describe_in_child(request: Mapping[str, object]) -> str:
    """Run `auto_tokenizer.describe` in a child process, and return its answer as JSON.

    This process then does not import transformers.
    """
    command = python_command("-m", _CHILD)
    line = json.dumps(request) + "\n"
    limits = ChildLimits(memory_bytes=_CHILD_BYTES)
    child = run_child(command, limits=limits, input=line, text=True)
    if child.returncode or not child.stdout:
        last = (child.stderr.strip().splitlines() or ["no message"])[-1]
        if child.returncode == -signal.SIGXCPU:
            last = f"used {limits.cpu_s} s of CPU time"
        raise ConfigurationError(
            f"tokenizer.path {request['path']}: transformers could not read it; its process ended "
            f"with {child.returncode} ({last})"
        )

    answer: str = child.stdout
    return answer


def _fill_holes(spec: dict[str, Any], source: Path) -> int:
    """Give each id without a piece a placeholder that no text contains; return their number.

    Then no new token takes these ids.
    """
    pieces = spec["model"]["vocab"]
    ids = piece_ids(spec)
    taken = {token: piece for piece, token in ids.items()}
    repeated = next((piece for piece, token in ids.items() if taken[token] != piece), None)
    if repeated:
        raise ConfigurationError(
            f"tokenizer.path {source}: transformers gives the id {ids[repeated]} to {repeated!r} "
            f"and {taken[ids[repeated]]!r}: the ids of its files have a hole that an added token "
            f"fills; number added tokens from {max(taken) + 1} on"
        )

    holes = {
        f"<|unused_{token}|>": token
        for token in range(max(taken, default=-1))
        if token not in taken
    }
    if isinstance(pieces, dict):
        spec["model"]["vocab"] = pieces | holes
    _append_special(spec, holes)
    return len(holes)


def _append_special(spec: dict[str, Any], pieces: Mapping[str, int]) -> None:
    """Add special tokens to a `tokenizer.json`, in order of all ids."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    new = [
        {"id": token, "content": piece, **flags, "special": True} for piece, token in pieces.items()
    ]
    spec["added_tokens"] = sorted([*spec["added_tokens"], *new], key=lambda entry: entry["id"])


def _assign_roles(
    spec: dict[str, object],
    published: PublishedMetadata,
    specials: Mapping[str, str],
    sentinels: str | Sequence[str],
    add: Collection[str],
    *,
    pad_by_eos: bool,
) -> tuple[dict[str, Any], PublishedMetadata]:
    """Return a tokenizer with the roles that the user names, and with added special tokens."""
    names = piece_ids(spec).keys()
    roles = {**published.specials, **specials}
    notes = list(published.notes)
    lacks_pad = pad_by_eos and "pad" not in roles and "eos" in roles
    if lacks_pad:
        roles["pad"] = roles["eos"]
        notes.append(f"no pad token: rows are padded with {roles['pad']}, which no model reads")

    # sentinels in order of use: named, published, or by the numbers in their names
    numbers = {name: int(match[1]) for name in names if (match := _SENTINEL_PIECE.fullmatch(name))}
    marks = (
        _parse_sentinels(sentinels, names)
        if sentinels
        else published.sentinels or sorted(numbers, key=numbers.__getitem__)
    )

    # added tokens get the ids after all others
    added = _missing_pieces(roles, marks, names, {*add} - ({"modes"} if published.modes else set()))
    first = len(names)
    _append_special(spec, {piece: first + number for number, piece in enumerate(added.values())})
    published = replace(
        published,
        pad_by_eos=lacks_pad or (published.pad_by_eos and "pad" not in specials),
        specials={**roles, **{role: piece for role, piece in added.items() if role in SPECIALS}},
        sentinels=[
            *marks,
            *(piece for role, piece in added.items() if role.startswith("sentinel")),
        ],
        modes={
            **published.modes,
            **{mode: piece for mode, piece in added.items() if mode in MODES},
        },
        added=[*published.added, *added.values()],
        notes=notes,
    )

    published.check([*names, *added.values()])
    return spec, published


@contextmanager
def _name_original_paths(originals: Mapping[Path, Path]) -> Iterator[None]:
    """Name the user's files instead of our copies in error messages."""
    try:
        yield
    except ClozelineError as error:
        text = str(error)
        for copy, original in originals.items():
            text = text.replace(str(copy), str(original))
        source = next(iter(originals.values()))
        raise type(error)(
            text if str(source) in text else f"{source}: {text.removeprefix('tokenizer: ')}"
        ) from error


def _check_ids(tokenizer: Tokenizer, texts: Mapping[str, Sequence[int]]) -> None:
    """Raise ConfigurationError if the tokenizer gives other ids than transformers.

    Texts that become a special piece are not compared.
    """
    special = tokenizer.vocabulary.special.copy()
    roles = dict(tokenizer.vocabulary.specials)
    if (unknown := roles.pop("unk", None)) is not None:
        special[unknown] = unknown in roles.values()
    for (text, expected), encoding in zip(
        texts.items(), tokenizer.encode(list(texts)), strict=True
    ):
        if not special[expected].any() and (ids := encoding.ids.tolist()) != expected:
            raise ConfigurationError(
                f"tokenizer: the ids of {text!r} are {ids}, but {expected} in transformers: this "
                "is a mistake in Clozeline, please report it with the files"
            )


def _check_unknown(tokenizer: Tokenizer) -> None:
    """Raise ConfigurationError if an unknown character becomes a piece with another role.

    Rows would then end, or be masked, inside a document. GPT-2 also names `<|endoftext|>` as its
    unknown token, but has a piece for each byte and never uses it.
    """
    vocabulary = tokenizer.vocabulary
    (probe,) = tokenizer.encode([_ALL_BYTES])
    written = {int(token) for token in np.unique(probe.ids) if vocabulary.special[token]}
    unknown = vocabulary.specials.get("unk")

    # the other roles that an unknown character takes
    others = {role: token for role, token in vocabulary.specials.items() if role != "unk"}
    others |= {
        f"sentinel {number}": token for number, token in enumerate(vocabulary.sentinels)
    } | vocabulary.modes
    shared = [role for role, token in others.items() if token in written]
    if shared:
        piece = tokenizer.piece(others[shared[0]])
        named = (
            "specials.unk is the same piece"
            if unknown == others[shared[0]]
            else "its model names it as unknown token"
        )
        raise ConfigurationError(
            f"tokenizer: an unknown character becomes {piece!r}, which is also "
            f"{' and '.join(shared)} ({named}): give the unknown token a separate piece, or set "
            f"another one by tokenizer.specials={{{shared[0]}: PIECE}}"
        )


def _parse_sentinels(pattern: str | Sequence[str], names: Collection[str]) -> list[str]:
    if not isinstance(pattern, str):
        return list(pattern)
    before, mark, after = pattern.partition("{}")

    if not mark:
        raise ConfigurationError(
            f"tokenizer.sentinels: expected a list, or a pattern with {{}}, got {pattern!r}"
        )

    numbered = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")
    marks = sorted((int(match[1]), name) for name in names if (match := numbered.fullmatch(name)))
    if not marks:
        raise ConfigurationError(
            f"tokenizer.sentinels: no piece of the vocabulary matches {pattern!r}"
        )

    return [name for _, name in marks]


def _missing_pieces(
    roles: Mapping[str, str], marks: Sequence[str], names: Collection[str], add: Collection[str]
) -> dict[str, str]:
    """Return the pieces to add by role: specials, then sentinels, then modes."""
    missing = {role: SPECIAL_PIECES[role] for role in SPECIALS if role in add and role not in roles}

    if "sentinels" in add:
        missing |= {
            f"sentinel {number}": f"<extra_{number}>" for number in range(len(marks), SENTINELS)
        }

    if "modes" in add:
        missing |= {mode: f"<{mode}>" for mode in MODES}
    taken = sorted(set(missing.values()) & set(names))
    if taken:
        raise ConfigurationError(
            f"tokenizer.add: the vocabulary already has {', '.join(taken)} without a role; assign "
            "their roles by `tokenizer.specials`"
        )

    return missing
