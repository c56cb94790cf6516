"""Import a published tokenizer: its model file, the roles of its pieces and added special tokens."""

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from clozeline import registry
from clozeline.errors import ClozelineError, ConfigurationError, IntegrityError
from clozeline.files import writing
from clozeline.hub import origin_of
from clozeline.pipeline.tokenize.published.local_tokenizers import own_tokenizer
from clozeline.pipeline.tokenize.published.rank_files import (
    pattern_for,
    rank_tokenizer,
    read_ranks,
    special_tokens_for,
)
from clozeline.pipeline.tokenize.published.source_libraries import Source, find_source, roles_by_name, sentinels_by_name
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import Published, check_distinct
from clozeline.pipeline.vocabulary import MODES, SENTINELS, SPECIALS
from clozeline.repair import repair_of

_ALL_BYTES: Final = " ".join(
    map(chr, [*range(0x20, 0x800), *range(0xFFF, 0xD800, 0x1000), *range(0xE001, 0x110000, 0x1FFFF)])
)
"""Letters, most of them in no vocabulary, whose UTF-8 has every byte of a text."""
_ADDED: Final = {name: f"<{name}>" for name in SPECIALS} | {"bos": "<s>", "eos": "</s>"}


def import_tokenizer(
    source: Path,
    folder: Path,
    *,
    specials: Mapping[str, str] | None = None,
    sentinels: str | Sequence[str] = (),
    lower_case: bool | None = None,
    pattern: str | None = None,
    special_tokens: str | Sequence[str] = (),
    add: Collection[str] = (),
    pad_by_eos: bool = False,
) -> Tokenizer:
    """Write a tokenizer folder with the same ids as the publisher's library, and load it; one of ours is copied.

    Args:
        source: `tokenizer.json`, `vocab.txt`, `vocab.json` or `encoder.json` next to its merges, a SentencePiece
            `.model`, a tiktoken file, or a Hugging Face directory; or a path that `own_tokenizer` accepts.
        folder: output folder for the model file, `published.json`, `vocabulary.json` and `name`.
        specials: piece by role (`pad cls sep mask bos eos unk`), in addition to those of the source.
        sentinels: pieces in order of use, or a pattern with `{}` for their numbers (`[unused{}]`); default: those
            named `<extra_id_0>`.
        lower_case: whether WordPiece lower-cases; default: as the source says, else true if no piece has a capital.
        pattern: of a tiktoken file: name or regular expression of the words; default: by the model's type.
        special_tokens: of a tiktoken file: pieces of the ids after its ranks, or the name of a model that has them.
        add: roles to append if the vocabulary lacks them: specials, `sentinels`, `modes`.

        pad_by_eos: fill rows up with the end token if there is no pad, as in many decoders; no model reads it there.

    Raises:
        ConfigurationError: the source is not a tokenizer, its ids have gaps, or a named piece does not exist.
        IntegrityError: its file is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (own := own_tokenizer(source)) is not None:
        if specials or sentinels or lower_case is not None or pattern or special_tokens or add:
            raise ConfigurationError(
                f"tokenizer.path {source}: is a tokenizer of Clozeline, whose ids models were trained with: "
                "it takes no further keys and no further tokens"
            )
        for file in own.files:
            shutil.copyfile(file, folder / file.name)
        with _naming({folder: own.files[0].parent}):
            return load_tokenizer(folder)
    origin = find_source(source)
    if not origin.ranks and (pattern or special_tokens):
        key = "pattern" if pattern else "special_tokens"
        raise ConfigurationError(f"tokenizer.{key}: is for tiktoken files, got {origin.files[0]}: remove the key")
    kind = registry.find("clozeline.pipeline.tokenize.tokenizers", origin.kind)
    with writing(folder), _naming({folder / kind.FILE: origin.files[0], folder: origin.files[0].parent}):
        if origin.ranks:
            _write_ranks(origin, folder / kind.FILE, pattern, special_tokens)
        else:
            _write_model(origin, folder / kind.FILE)
        return _import(origin, kind, folder, specials or {}, sentinels, lower_case, add, pad_by_eos=pad_by_eos)


def guesses(source: Path, folder: Path) -> list[str]:
    """Return the assumptions of `import_tokenizer` that the published files do not state, one per line."""
    if own_tokenizer(source) is not None:
        return []
    origin = find_source(source)
    assumptions = list(origin.guesses)
    specials = Published.load(folder).specials
    if specials.get("pad") is not None and specials["pad"] == specials.get("eos"):
        assumptions.append(f"no pad token: rows are filled up with {specials['pad']}, which is not read there")
    if origin.kind == "wordpiece" and origin.lower_case is None:
        does, why = ("is", "no piece has") if Published.load(folder).lower_case else ("is not", "pieces have")
        assumptions.append(
            f"no do_lower_case in tokenizer_config.json: text {does} lowered, because {why} capital letters"
        )
    return assumptions


@contextmanager
def _naming(originals: Mapping[Path, Path]) -> Iterator[None]:
    """Name the user's files, not our copies, in error messages."""
    try:
        yield
    except ClozelineError as error:
        text = str(error)
        for copy, original in originals.items():
            text = text.replace(str(copy), str(original))
        has_path = any(str(original) in text for original in originals.values())
        source = next(iter(originals.values()))
        raise type(error)(text if has_path else f"{source}: {text.removeprefix('tokenizer: ')}") from error


def _import(
    origin: Source,
    kind: Any,
    folder: Path,
    specials: Mapping[str, str],
    sentinels: str | Sequence[str],
    lower_case: bool | None,
    add: Collection[str],
    *,
    pad_by_eos: bool,
) -> Tokenizer:
    """Write the facts next to the model file, and load the folder."""
    model_file = folder / kind.FILE
    pieces, behind = _pieces(origin, kind, model_file)
    names = [*pieces, *behind]
    own_roles = kind.roles(model_file) if origin.kind == "sentencepiece_model" else {}
    if origin.fairseq or origin.layout == "camembert":
        own_roles |= {"cls": "<s>", "sep": "</s>"}
    if origin.layout == "pegasus":
        own_roles |= {"mask": "<mask_2>"}
    roles = {**roles_by_name(names), **own_roles, **origin.roles, **specials}
    if "pad" not in roles and (pad := _pad_of_model(origin, roles, names, model_file)) is not None:
        roles["pad"] = pad
    if pad_by_eos and "pad" not in roles and "eos" in roles:
        roles["pad"] = roles["eos"]
    marks = _parse_sentinels(sentinels, names) if sentinels else sentinels_by_name(names)
    added = _missing_pieces(roles, marks, names, add)
    lower = origin.lower_case if lower_case is None else lower_case
    if lower is None:
        lower = origin.kind == "wordpiece" and not any(
            "A" <= c <= "Z" for name in pieces if name[:1] != "[" for c in name
        )
    if origin.kind == "wordpiece":
        from clozeline.pipeline.tokenize.tokenizers.wordpiece import library_model

        if "unk" not in roles:
            raise ConfigurationError("tokenizer: WordPiece needs the special token 'unk'; name it in specials")
        model_file.write_text(library_model(pieces, roles["unk"], lower_case=lower).to_str(), encoding="utf-8")
    facts = Published(
        specials={**roles, **{role: piece for role, piece in added.items() if role in SPECIALS}},
        sentinels=[*marks, *(piece for role, piece in added.items() if role.startswith("sentinel"))],
        modes={mode: piece for mode, piece in added.items() if mode in MODES},
        behind=[*behind, *added.values()],
        added=list(added.values()),
        lower_case=lower,
        fairseq=origin.fairseq,
        layout=origin.layout,
        steps=list(origin.steps),
        source=name if (name := origin_of(origin.files[0].parent)).startswith("hf://") else "",
    )
    facts.check([*names, *added.values()])
    facts.save(folder)
    tokenizer: Tokenizer = kind.load(folder)
    _check_unknown(tokenizer)
    save_tokenizer(tokenizer, origin.kind, folder)
    return load_tokenizer(folder)


def _check_unknown(tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that writes a piece with another role where it does not know a character.

    Its rows would end, or be masked, inside a document. GPT-2 names `<|endoftext|>` as its unknown token, too, but has
    a piece for each byte and never writes it.
    """
    vocabulary = tokenizer.vocabulary
    (probe,) = tokenizer.encode([_ALL_BYTES])
    written = {int(token) for token in np.unique(probe.ids) if vocabulary.special[token]}
    own = vocabulary.specials.get("unk")
    others = {role: token for role, token in vocabulary.specials.items() if role != "unk"}
    others |= {f"sentinel {number}": token for number, token in enumerate(vocabulary.sentinels)} | vocabulary.modes
    shared = [role for role, token in others.items() if token in written]
    if shared:
        piece = tokenizer.piece(others[shared[0]])
        named = "specials.unk is the same piece" if own == others[shared[0]] else "its model names it as unknown token"
        raise ConfigurationError(
            f"tokenizer: a character that it does not know becomes {piece!r}, which is {' and '.join(shared)} as well "
            f"({named}): give the unknown token a piece of its own, or tokenizer.specials={{{shared[0]}: PIECE}} "
            "another one"
        )


def _write_model(origin: Source, target: Path) -> None:
    if origin.kind == "wordpiece":
        return  # it is written with its roles
    if origin.kind != "tokenizer_json":
        shutil.copyfile(origin.files[0], target)
    elif len(origin.files) == 2:
        # byte-level BPE from the two files of GPT-2's format
        vocabulary, merges = origin.files
        try:
            model = Library(models.BPE.from_file(str(vocabulary), str(merges)))
        except Exception as error:  # the library raises nothing narrower
            raise ConfigurationError(
                f"tokenizer.path {vocabulary}: not a vocabulary and merges of byte-level BPE ({error})"
            ) from error
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = decoders.ByteLevel()
        target.write_text(model.to_str(pretty=True), encoding="utf-8")
    else:
        from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import read_json

        facts = {**read_json(origin.files[0]), "truncation": None, "padding": None}
        target.write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _write_ranks(origin: Source, target: Path, pattern: str | None, special_tokens: str | Sequence[str]) -> None:
    path, ranks = origin.files[0], read_ranks(origin.files[0])
    first = max(ranks.values()) + 1
    named = special_tokens_for(special_tokens)
    specials = {piece: first + number for number, piece in enumerate(named)}
    if not named:  # as its folder states them
        ids = origin.behind_ids or range(first, first + len(origin.behind))
        specials = dict(zip(origin.behind, ids, strict=True))
    if specials and min(specials.values()) < first:
        raise ConfigurationError(f"tokenizer.path {path}: its folder has added tokens at ids below {first}, of ranks")
    facts = rank_tokenizer(ranks, pattern_for(path, pattern, origin.model_type), specials)
    target.write_text(json.dumps(facts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _pieces(origin: Source, kind: Any, model_file: Path) -> tuple[list[str], list[str]]:
    """Return the pieces of the model, and those that its folder appends."""
    if origin.kind == "tokenizer_json":
        from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import pieces_of, read_json

        pieces = pieces_of(read_json(model_file), str(model_file))
    elif origin.kind == "wordpiece":
        pieces = _read_pieces(origin.files[0])
    else:
        order = {"fairseq": origin.fairseq, "layout": origin.layout} if origin.kind == "sentencepiece_model" else {}
        pieces = kind.names(model_file, **order)
    known = set(pieces)
    outside = [name for name in origin.behind if name not in known]
    # a folder may not state the ids
    ids = [token for token, name in zip(origin.behind_ids, origin.behind, strict=False) if name not in known]
    if ids and ids != list(range(len(pieces), len(pieces) + len(ids))):
        raise ConfigurationError(
            f"tokenizer.path {origin.files[0].parent}: expected its {len(ids)} added tokens at the ids from "
            f"{len(pieces)} on, got {ids[:5]}; a new token would get an id that is taken: remove the added tokens"
        )
    return pieces, outside


def _read_pieces(path: Path) -> list[str]:
    """Return the pieces of a `vocab.txt`, one per line, in order of their ids."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        if lines == [""]:
            raise ValueError("it is empty")
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"{path}: not a WordPiece vocabulary, one piece a line ({error}); {repair_of(path)}"
        ) from error
    names = [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]
    check_distinct(names, str(path))
    return names


def _pad_of_model(origin: Source, roles: Mapping[str, str], names: Sequence[str], model_file: Path) -> str | None:
    """Return the pad piece by the `pad_token_id` of the model's configuration, if it is a special piece."""
    from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import read_json

    if not isinstance(origin.pad_id, int) or not 0 <= origin.pad_id < len(names):
        return None
    added = read_json(model_file)["added_tokens"] if origin.kind == "tokenizer_json" else ()
    bare = {*roles.values(), *origin.behind, *(entry["content"] for entry in added if entry["special"])}
    piece = names[origin.pad_id]
    return piece if piece in bare and piece != roles.get("unk") else None


def _parse_sentinels(pattern: str | Sequence[str], names: Sequence[str]) -> list[str]:
    if not isinstance(pattern, str):
        return list(pattern)
    before, mark, after = pattern.partition("{}")
    if not mark:
        raise ConfigurationError(f"tokenizer.sentinels: expected a list, or a pattern with {{}}, got {pattern!r}")
    numbered = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")
    marks = sorted((int(match[1]), name) for name in names if (match := numbered.fullmatch(name)))
    if not marks:
        raise ConfigurationError(f"tokenizer.sentinels: the vocabulary has no piece like {pattern!r}")
    return [name for _, name in marks]


def _missing_pieces(
    roles: Mapping[str, str], marks: Sequence[str], names: Sequence[str], add: Collection[str]
) -> dict[str, str]:
    """Return the pieces to add by role: specials, then sentinels, then modes."""
    missing = {role: _ADDED[role] for role in SPECIALS if role in add and role not in roles}
    if "sentinels" in add:
        missing |= {f"sentinel {number}": f"<extra_{number}>" for number in range(len(marks), SENTINELS)}
    if "modes" in add:
        missing |= {mode: f"<{mode}>" for mode in MODES}
    taken = sorted(set(missing.values()) & set(names))
    if taken:
        raise ConfigurationError(
            f"tokenizer.add: the vocabulary has {', '.join(taken)} already, without a role; name their roles under "
            "`tokenizer.specials`"
        )
    return missing
