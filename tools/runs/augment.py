"""Augment a task with a masked LM: `clozeline augment RUN task=sst2 input=FILE output=FILE [copies=20]`.

Each row gets copies in which words are replaced (TinyBERT, arXiv 1909.10351, algorithm 1). The candidates of a word of
one token are the best guesses of RUN at its position; those of a longer word are the words nearest to the mean of its
token embeddings. `clozeline finetune ... pseudo=FILE` trains on the copies in addition to the rows. FILE.json counts
what was written and why the rest was not.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from clozeline.configuration.config import config_class, config_file
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.configuration.strict_yaml import parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.files import file_hash, publish_json, publish_text
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaskReader
from clozeline.registry import choose
from clozeline.seeding import hash64
from clozeline.tools.command import IntermixedArguments, run_tool, some_path
from clozeline.tools.runs.inference.trained_model import TrainedModel, load_trained
from clozeline.tools.settings import add_settings, settings_of

_BATCH: Final = 8
"""Masked copies of a text in one forward pass; their scores are [8, tokens, vocabulary]."""


@config_class
class AugmentOptions:
    """A task file, and how much of it changes."""

    task: str
    """recipe of the task: sst2, or a folder with a pipeline.yaml"""
    input: Annotated[Path, HOME_EXPANDED]
    """file with labeled rows"""
    output: Annotated[Path, HOME_EXPANDED]
    """file for the copies, without the rows themselves; FILE.json gets the counts"""
    p: Annotated[float, Field(gt=0, le=1)] = 0.4
    """probability that a word is replaced"""
    copies: Annotated[int, Field(ge=1)] = 20
    """copies of a row; those that equal it or an earlier copy are dropped"""
    candidates: Annotated[int, Field(ge=1)] = 15
    """replacements of a word, drawn with equal probabilities"""
    seed: int = 0
    """of the draws, which depend on it and the row"""
    step: Annotated[int, Field(ge=1)] | None = None
    """step of the checkpoint; default: the newest"""


class Word(NamedTuple):
    """A word of a text, and what may stand in its position."""

    start: int
    """first character"""
    end: int
    """character after the last one"""
    candidates: list[str]


class Candidates:
    """Replacements for words, from a masked LM and its token table.

    Raises:
        ConfigurationError: the run has no head masked_lm.
    """

    def __init__(self, trained: TrainedModel, count: int) -> None:
        if "masked_lm" not in trained.model.heads:
            raise ConfigurationError(f"augment needs a head masked_lm, the run has {', '.join(trained.model.heads)}")
        self.trained, self.count = trained, count
        vocabulary = trained.tokenizer.vocabulary
        self.special = {name: vocabulary.id_of(name, "augment") for name in ("cls", "sep", "mask")}
        self.texts = [trained.tokenizer.decode_part([token]).strip() for token in range(vocabulary.size)]
        self.letters = np.array([text.isalpha() for text in self.texts]) & ~vocabulary.special
        vocabulary.require_words("augment")
        # a piece is a word if it has the mark of a word's start or end
        self.words = torch.from_numpy(np.flatnonzero(self.letters & (vocabulary.word_start | vocabulary.ends_word)))
        table = trained.model.family.tokens.weight.detach()[: vocabulary.size].float()
        self.table = F.normalize(table, dim=-1)
        self.nearest: dict[tuple[int, ...], list[str]] = {}

    def find_words(self, text: str) -> list[Word]:
        """Return the words of letters that a text has, in order, with their candidates, best first.

        Words beyond the length of the model's rows are not among them.
        """
        encoding = self.trained.tokenizer.encode([text])[0]
        ids = encoding.ids.astype(np.int64)[: self.trained.max_length - 2]
        if not len(ids):
            return []
        starts = np.append(encoding.starts, len(text))
        # a word begins where a token opens one, and at both sides of a token without letters
        begins = self.trained.tokenizer.vocabulary.opens_word(ids)
        other = ~self.letters[ids]
        begins |= other
        begins[1:] |= other[:-1]
        begins[0] = True
        firsts = np.flatnonzero(begins)
        spans = [
            (int(first), int(last))
            for first, last in zip(firsts, [*firsts[1:], len(ids)], strict=True)
            if self.letters[ids[first:last]].all() and starts[first] < starts[last]
        ]
        single = [first for first, last in spans if last - first == 1]
        guessed = dict(zip(single, self._guess(ids, single), strict=True))
        words = []
        for first, last in spans:
            piece = text[starts[first] : starts[last]]
            start = int(starts[first]) + len(piece) - len(piece.lstrip())
            end = start + len(piece.strip())
            listed = guessed[first] if first in guessed else self._neighbors(tuple(ids[first:last].tolist()))
            if listed:
                words.append(Word(start, end, listed))
        return words

    def _guess(self, ids: NDArray[np.int64], positions: Sequence[int]) -> Iterator[list[str]]:
        """Yield the best guesses at positions [n] of a text's tokens [T], each masked by itself."""
        row = torch.tensor([self.special["cls"], *ids.tolist(), self.special["sep"]])
        for first in range(0, len(positions), _BATCH):
            own = torch.tensor(positions[first : first + _BATCH]) + 1
            rows = row.repeat(len(own), 1)
            rows[torch.arange(len(own)), own] = self.special["mask"]
            tensors = {"input_ids": rows, "position_ids": torch.arange(len(row)).expand_as(rows)}
            tensors["lengths"] = torch.full((len(own),), len(row))
            with torch.no_grad():
                scores = self.trained.model.logits(tensors)["masked_lm"][torch.arange(len(own)), own]
            for position, of_word in zip(own.tolist(), scores[:, : len(self.texts)], strict=True):
                yield self._best(of_word.float(), self.texts[row[position]])

    def _neighbors(self, ids: tuple[int, ...]) -> list[str]:
        """Return the words whose vectors have the largest cosine with the mean of a word's token vectors."""
        if ids not in self.nearest:
            with torch.no_grad():
                mean = self.trained.model.family.tokens.weight[list(ids)].float().mean(0)
                cosines = self.table @ F.normalize(mean, dim=0)
            whole = self.trained.tokenizer.decode_part(ids).strip()
            self.nearest[ids] = self._best(cosines, whole)
        return self.nearest[ids]

    def _best(self, scores: Tensor, word: str) -> list[str]:
        """Return the words of letters with the highest scores [V], without the word itself."""
        ranked = self.words[scores[self.words].argsort(descending=True, stable=True)].tolist()
        others = (text for token in ranked if (text := self.texts[token]).lower() != word.lower())
        return list(islice(others, self.count))


def replace_words(text: str, words: Sequence[Word], draws: NDArray[np.float64], p: float) -> str:
    """Return a text with some words replaced, by two draws in [0, 1) for each word [n, 2].

    Example:
        >>> words = [Word(0, 1, ["the", "one"]), Word(2, 6, ["movie"])]
        >>> replace_words("a film.", words, np.array([[0.3, 0.5], [0.4, 0.0]]), p=0.4)
        'one film.'
    """
    parts, at = [], 0
    for word, (replaced, chosen) in zip(words, draws.tolist(), strict=True):
        if replaced < p:
            parts += [text[at : word.start], word.candidates[int(chosen * len(word.candidates))]]
            at = word.end
    return "".join([*parts, text[at:]])


def augment_row(item: LabeledText, options: AugmentOptions, candidates: Candidates) -> list[LabeledText]:
    """Return the different copies of a row; the texts of a pair change independently."""
    variants: list[list[str]] = []
    for number, text in enumerate(item.texts):
        words = candidates.find_words(text)
        source = np.random.Philox(key=hash64("augment", options.seed, item.index, number))
        draws = np.random.Generator(source).random((options.copies, len(words), 2))
        variants.append([replace_words(text, words, of_copy, options.p) for of_copy in draws])
    copies = dict.fromkeys(zip(*variants, strict=True))
    copies.pop(item.texts, None)
    return [replace(item, texts=texts) for texts in copies]


def augment(run: Path, options: AugmentOptions) -> dict[str, Any]:
    """Write the copies of a file's rows, and return the counts that FILE.json gets."""
    reader = _open_reader(options.task)
    list(reader.format_lines([]))  # refuses tasks whose rows cannot be written, before the model is loaded
    if not options.input.is_file():
        raise ConfigurationError(f"input: {options.input}: no such file; give one with rows of the task")
    trained = load_trained(run, options.step)
    candidates, refused = Candidates(trained, options.candidates), Counter[str]()
    copies: list[LabeledText] = []
    rows = 0
    for item in reader.read(reader.open(options.input)):
        if isinstance(item, Rejected):
            refused[item.reason] += 1
        elif isinstance(item, LabeledText):
            rows += 1
            copies += augment_row(item, options, candidates)
    if not copies:
        raise ConfigurationError(f"input: {options.input}: no word of {rows} rows was replaced; rejected: {refused}")
    publish_text(options.output, "".join(f"{line}\n" for line in reader.format_lines(copies)))
    facts = {
        "run": str(run.resolve()),
        "step": trained.step,
        "tokenizer": trained.tokenizer.vocabulary.fingerprint,
        "task": reader.facts.name,
        "input": {options.input.name: file_hash(options.input)},
        "output": {options.output.name: file_hash(options.output)},
        **{key: getattr(options, key) for key in ("p", "copies", "candidates", "seed")},
        "rows_in": rows + sum(refused.values()),
        "rejected": dict(refused),
        "rows_out": len(copies),
        "equal": rows * options.copies - len(copies),
    }
    publish_json(options.output.with_name(f"{options.output.name}.json"), facts)
    return facts


def _open_reader(task: str) -> TaskReader:
    """Return the reader of a task's recipe, or of a folder with a pipeline.yaml."""
    path = Path(task) / "pipeline.yaml" if Path(task).is_dir() else config_file(f"recipe:tasks/{task}", "pipeline.yaml")
    entry = (parse_yaml(path.read_text(encoding="utf-8")).get("tasks") or {}).get("reader")
    if entry is None:
        raise ConfigurationError(f"task: {path}: expected the key tasks.reader, which names a reader and its options")
    reader: TaskReader = choose("clozeline.pipeline.tasks.readers", entry).build(Limits())
    return reader


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("run", type=some_path, metavar="RUN", help="a run with the head masked_lm")
    add_settings(parser, AugmentOptions, help_text="settings, listed below")

    def action(options: argparse.Namespace) -> None:
        chosen = settings_of(AugmentOptions, options.overrides)
        facts = augment(options.run, chosen)
        rejected = ", ".join(f"{name} {number:,}" for name, number in facts["rejected"].items()) or "none"
        sys.stdout.write(
            f"{chosen.output}: {facts['rows_out']:,} copies of {facts['rows_in']:,} rows; equal to a row or an earlier "
            f"copy: {facts['equal']:,}; rejected rows: {rejected}\n"
        )

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
