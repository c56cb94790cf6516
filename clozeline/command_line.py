"""One command language: every command reads its words into a config class.

The class also gives the help.

`key=value`, `--key value` and `--key=value` set a field, `--key` sets a field that is true or
false, and words without a key go to the fields that are `Positional`. The docstring below a field
is its help.
"""

import difflib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import realpath
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin

from clozeline.configuration.config import adapter_of, validate
from clozeline.configuration.described_keys import (
    Annotation,
    DescribedKey,
    describe,
    find_annotation,
)
from clozeline.configuration.named_algorithms import allow_words
from clozeline.configuration.overrides import (
    COMMAND_LINE,
    alternatives,
    fields_of,
    override,
    parse_word,
)
from clozeline.configuration.paths import WrittenPath, refusal_of_special
from clozeline.configuration.redaction import leaves
from clozeline.configuration.words_elsewhere import translate_key, translate_option
from clozeline.errors import ConfigurationError
from clozeline.files import is_replaceable

Options = TypeVar("Options")

_KEY: Final = re.compile(r"[A-Za-z_][\w.-]*=")
"""Start of a word that sets a key; `a b=c` and `x/y=z/` are texts and paths."""
_EXAMPLE: Final = re.compile(r"clozeline [\w-]+ .+?(?= \[|`|$)", re.MULTILINE)
"""The first command of a description, up to what may be left out: ` [key=value ...]`."""
_HELP_LINES: Final = re.compile(r"(.{1,120}|\S+)(?:$|(?<= )|(?= )) ?")
"""Lines of at most 120 columns, cut at spaces; a longer word is a line of its own."""


@dataclass(frozen=True)
class Positional:
    """Annotation of a field that is given by its position, or by its key.

    For example `Annotated[Path, Positional(0)]`.
    """

    index: int
    """order among the positional fields; a list takes all words from there on"""
    shown: str = ""
    """word in the help; default: the name of the field in capitals"""


@dataclass(frozen=True)
class ChoosesMode:
    """Annotation of a field that chooses the config class of a command.

    If it is given, the command reads its class instead of the first one.
    """


@dataclass(frozen=True)
class Dashed:
    """Annotation of a field that the help shows as an option: `--config FILE`."""

    value: str


@dataclass(frozen=True)
class Hidden:
    """Annotation of a field that the help leaves out, such as one that a launcher sets."""


@dataclass(frozen=True)
class OtherKeys:
    """Annotation of a tuple for the `key=value` words of all other keys.

    Another program reads them.
    """

    meaning: str
    """what these keys are"""
    schemas: Callable[[Sequence[str]], Iterable[type]] = lambda words: ()
    """gives the config classes of these keys for the words of a command line, as far as known"""


def read_words(
    schemas: type[Options] | tuple[type[Any], ...],
    words: Sequence[str],
    description: str | None = None,
) -> Options:
    """Return the options that the words of a command line give.

    Args:
        schemas: a config class, or several of which one is chosen by its field `ChoosesMode`; the
            first is the class without such a field.
        words: the command line, without the command.
        description: of the command, whose first command line is the example of a message about
            missing words.

    Raises:
        ConfigurationError: a word, key or value is wrong, or a required one is missing.
    """
    refuse_unreadable(words)
    languages = _languages(schemas)
    language = _choose_language(languages, words)
    language.modes = [each.mode for each in languages if each.mode is not None]
    schema = language.schema
    settings, texts = language.split(words)

    # words of other programs
    known = [word for word in settings if language.takes(word)]
    data: dict[str, object] = {}
    if language.others is not None:
        data[language.others[0]] = [word for word in settings if word not in known]
        settings = known

    # items of a list may be given one by one
    items: dict[str, list[object]] = {}

    for word in known:
        key, _, text = word.partition("=")
        if "." not in key and text and _is_list(kind := language.fields[key][0]):
            value = parse_word(kind, text)
            items.setdefault(key, []).extend(value if isinstance(value, list) else [value])

    settings = [word for word in settings if word.partition("=")[0] not in items]

    allow_words(schema, known)
    data |= override(schema, items, settings, COMMAND_LINE)
    for key, value in language.place(texts, data).items():
        data[key] = [*items.get(key, ()), *value] if isinstance(value, list) else value
    # a misspelled key or mode explains what is missing
    if data.keys() <= language.fields.keys() and language.mode is None:
        language.require_all(data, description or "")
    try:
        options: Options = validate(schema, data, COMMAND_LINE)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}{language.explain_text(data)}") from error
    refuse_overwriting(adapter_of(type(options)).dump_python(options))
    return options


def refuse_overwriting(values: object) -> None:
    """Refuse to write the file or folder of another key, in whatever spelling or by a link.

    A file that exists is somebody else's, too, unless it is a page of ours.
    """
    named = [(keys[0], path) for keys, path in leaves(values) if isinstance(path, Path)]

    for key, output in named:
        if not isinstance(output, WrittenPath):
            continue
        for other, path in named:
            exist = path.exists() and output.exists()
            is_same = path.samefile(output) if exist else realpath(path) == realpath(output)
            if is_same and other != key:
                raise ConfigurationError(
                    f"{key}: {output} would overwrite what {other} names: choose another {key}"
                )
        if not output.is_dir() and not is_replaceable(output):
            raise ConfigurationError(
                f"{key}: {output} exists and is not replaced: choose another {key}, or remove it"
            )


def wants_all_keys(words: Sequence[str]) -> bool:
    """Return whether the words ask for `--help all`."""
    return any(pair in (("--help", "all"), ("-h", "all")) for pair in itertools.pairwise(words))


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether an option among the words is `--help`; after `--` they are no options."""
    options = itertools.takewhile("--".__ne__, words)
    return not {"-h", "--help"}.isdisjoint(options)


def refuse_unreadable(words: Iterable[str]) -> None:
    """Refuse words that are not UTF-8, and paths of pipes.

    The former may be the path of a file in another encoding.
    """
    option = "argument"
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise ConfigurationError(
                f"argument {word!r}: expected UTF-8; rename the file or folder"
            )
        key, equals, value = word.partition("=")
        if (refusal := refusal_of_special(value or word)) is not None:
            raise ConfigurationError(f"{key if equals else option}: {refusal}")
        option = word if word.startswith("-") else "argument"


def print_help(
    schemas: type | tuple[type, ...],
    words: Sequence[str],
    description: str | None,
    program: str | None = None,
) -> None:
    """Print how a command is used, what it does, and its arguments, switches and keys."""
    languages = _languages(schemas)
    program = program or Path(sys.argv[0]).name
    usage = [f"{program} {language.usage()}".rstrip() for language in languages]
    lines = ["usage: " + "\n       ".join(usage), "", (description or "").strip()]

    # each mode has its keys; the first mode that has a key describes it
    sections: dict[str, dict[str, str]] = {"arguments": {}, "options": {}}
    keys: dict[str, DescribedKey] = {}

    for language in languages:
        for section, shown, meaning in language.describe_words():
            sections[section].setdefault(shown, meaning)
        for schema in (language.schema, *language.other_schemas(words)):
            for described in describe(schema):
                if schema is not language.schema or language.lists(described.key):
                    keys.setdefault(described.key, described)

    sections["options"]["--help"] = "show this text"

    for section, entries in sections.items():
        if entries:
            lines += ["", f"{section}:"]
            for shown, meaning in entries.items():
                lines += _HELP_LINES.findall(f"  {shown}: {meaning}")

    if keys:
        lines += ["", *key_lines(keys.values(), "keys")]
    sys.stdout.write("\n".join(lines) + "\n")


def key_lines(keys: Iterable[DescribedKey], title: str) -> Iterator[str]:
    """Yield the lines of a help text that describe keys."""
    yield f"{title} (key: type = default: meaning):"
    for key, kind, default, text in keys:
        shown = f" = {default}" if default else ""
        yield from _HELP_LINES.findall(f"  {key}: {kind}{shown}: {text}")


class _Language:
    """The words that a config class reads."""

    def __init__(self, schema: type) -> None:
        self.schema: Any = schema
        self.fields = fields_of(schema)
        self.modes: list[str] = []
        places = self._find(Positional).items()
        self.positional = dict(sorted(places, key=lambda item: item[1].index))
        self.others = next(iter(self._find(OtherKeys).items()), None)

    def _find(self, kind: type[Annotation]) -> dict[str, Annotation]:
        """Return the annotation of this class by the keys that have one."""
        found = ((key, find_annotation(field, kind)) for key, (_, field) in self.fields.items())
        return {key: note for key, note in found if note is not None}

    @property
    def mode(self) -> str | None:
        """The key that chooses this class."""
        return next(iter(self._find(ChoosesMode)), None)

    def split(self, words: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the settings among the words, as `key=value`, and the positional words."""
        settings: list[str] = []
        texts: list[str] = []
        rest = iter(words)

        for word in rest:
            if word == "--":
                texts += rest
            elif word.startswith("--") and " " not in word.partition("=")[0]:
                settings.append(self._setting_of_option(word, rest))
            elif _KEY.match(word) is None:
                texts.append(word)
            else:
                settings.append(word)
                self._refuse_other_option(word.partition("=")[0])

        return settings, texts

    def _refuse_other_option(self, key: str) -> None:
        """Refuse an option that this command calls by another word, such as `--plan`."""
        options = [self._shown(known) for known in self.fields if self.is_option(known)]
        options += self.modes
        if key not in self.fields and (hint := translate_option(key, options)) is not None:
            raise ConfigurationError(f"{key}: no such key; {hint}; see --help")

    def _setting_of_option(self, option: str, rest: Iterator[str]) -> str:
        """Return `--key value` as `key=value`.

        The value is the next word, unless the key is a switch.
        """
        name, equals, value = option.partition("=")
        key = name.removeprefix("--").replace("-", "_")
        self._refuse_other_option(key)
        if equals:
            return f"{key}={value}"
        if key in self.fields and self.is_switch(key):
            return f"{key}=true"
        following = next(rest, None)
        if following is not None and not following.startswith("--"):
            return f"{key}={following}"
        if (root := _root(key)) in self.fields:
            raise ConfigurationError(f"{name}: expected a value, {self._shown(root)}; see --help")
        options = [f"--{known.replace('_', '-')}" for known in self.fields]
        near = difflib.get_close_matches(name, options, n=1)
        hint = translate_key(key, [*self.fields]) or (f"did you mean '{near[0]}'?" if near else "")
        raise ConfigurationError(
            "; ".join(filter(None, [f"{name}: no such option", hint, "see --help"]))
        )

    def place(self, texts: Sequence[str], data: dict[str, object]) -> dict[str, Any]:
        """Return positional words by the fields that they set."""
        placed: dict[str, Any] = {}
        rest = [*texts]

        for key in self.positional:
            kind = self.fields[key][0]
            if _is_list(kind):
                if rest:
                    placed[key] = rest
                rest = []
            elif rest and key not in data:
                placed[key] = rest.pop(0)
            given = placed.get(key, [])
            if "" in (given if isinstance(given, list) else [given]) and Path in _scalars(kind):
                raise ConfigurationError(f"{self._shown(key)}: expected a path, got nothing")

        if rest:
            raise ConfigurationError(
                f"argument {rest[0]!r}: expected key=value, for example output=runs/first; see "
                "--help"
            )

        return placed

    def require_all(self, data: dict[str, object], description: str) -> None:
        """Raise ConfigurationError if a required field is not given."""
        missing = [
            self._shown(key)
            for key in {**self.positional, **self.fields}
            if self.fields[key][1].is_required() and key not in data
        ]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            example = "".join(f", as in: {line}" for line in _EXAMPLE.findall(description)[:1])
            raise ConfigurationError(f"{', '.join(missing)} {verb} missing{example}; see --help")

    def explain_text(self, data: dict[str, object]) -> str:
        """Return how a text is given, if an unknown key may be meant as one: `prompt='A page'`."""
        unknown = next((key for key in data if key not in self.fields), None)
        for key in self.positional:
            if unknown and key not in data and str in _scalars(self.fields[key][0]):
                shown = self._shown(key)
                return f"\n{shown} stands alone; if it begins with {unknown}=: {key}='{unknown}=…'"
        return ""

    def takes(self, word: str) -> bool:
        """Return whether a word sets a field, not a key of another configuration.

        A switch `plan` leaves `plan.unit_bytes=4096` to the other configuration.
        """
        root = _root(word)
        if root not in self.fields or self.others is None or not self.is_switch(root):
            return root in self.fields
        key, _, text = word.partition("=")
        return key == root and not text.startswith("{")

    def is_switch(self, key: str) -> bool:
        """Return whether a field is true or false, and false by default."""
        kind, field = self.fields[key]
        return alternatives(kind) == [bool] and (field.is_required() or field.default is False)

    def is_option(self, key: str) -> bool:
        """Return whether the help shows a field with dashes."""
        return self.is_switch(key) or find_annotation(self.fields[key][1], Dashed) is not None

    def lists(self, key: str) -> bool:
        """Return whether the help lists a key among those with a value."""
        root = key.partition(".")[0]
        field = self.fields[root][1]
        is_other = self.others is not None and root == self.others[0]
        return not (
            root in self.positional
            or is_other
            or self.is_option(root)
            or find_annotation(field, Hidden) is not None
        )

    def other_schemas(self, words: Sequence[str]) -> list[type]:
        """Return the config classes of the keys that another program reads.

        Only those that are known.
        """
        return [] if self.others is None else [*self.others[1].schemas(words)]

    def usage(self) -> str:
        """Return the words of a command line, without the command."""
        shown = []
        for key in self.positional:
            kind, field = self.fields[key]
            word = self._shown(key) + (" ..." if _is_list(kind) else "")
            shown.append(word if field.is_required() else f"[{word}]")
        for key, (_, field) in self.fields.items():
            if key not in self.positional and field.is_required():
                shown.append(self._shown(key))
            elif find_annotation(field, Dashed):
                shown.append(f"[{self._shown(key)}]")
        return " ".join([*shown, "[key=value ...]"])

    def describe_words(self) -> Iterator[tuple[str, str, str]]:
        """Yield the section of the help, the word and the meaning of each argument and switch."""
        described = {key: text for key, _, _, text in describe(self.schema)}
        for key in self.positional:
            yield "arguments", self._shown(key), described[key]
        if self.others is not None:
            yield "arguments", "key=value", self.others[1].meaning
        fields = sorted(self.fields.items(), key=lambda item: self.is_switch(item[0]))
        for key, (_, field) in fields:
            if self.is_option(key) and not find_annotation(field, Hidden):
                yield "options", self._shown(key), described[key]

    def _shown(self, key: str) -> str:
        if key in self.positional:
            return self.positional[key].shown or key.upper()
        dashed = find_annotation(self.fields[key][1], Dashed)
        value = f" {dashed.value}" if dashed is not None else ""
        return f"--{key.replace('_', '-')}{value}" if self.is_option(key) else f"{key}=..."


def _languages(schemas: type | tuple[type, ...]) -> list[_Language]:
    return [_Language(schema) for schema in ([schemas] if isinstance(schemas, type) else schemas)]


def _choose_language(languages: Sequence[_Language], words: Sequence[str]) -> _Language:
    """Return the first language whose mode the words choose, else the one without a mode."""
    keys = {_root(word.removeprefix("--").replace("-", "_")) for word in words}
    chosen = (language for language in languages if language.mode in keys)
    return next(chosen, languages[0])


def _root(word: str) -> str:
    """Return the first part of the key of a word."""
    return word.partition("=")[0].partition(".")[0]


def _scalars(kind: object) -> list[object]:
    """Return the types in a union, and those of the items of its lists."""
    parts = [get_args(each)[0] if get_args(each) else each for each in alternatives(kind)]
    return [each for part in parts for each in alternatives(part)]


def _is_list(kind: object) -> bool:
    """Return whether a type is a list, and nothing else."""
    origins = [get_origin(each) for each in alternatives(kind) if each is not NoneType]
    return bool(origins) and all(origin in (list, tuple) for origin in origins)
