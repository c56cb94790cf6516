"""What each stage checks of its counts, hands over to later stages, and shows in the table of a run."""

import copy
import pkgutil
from types import SimpleNamespace

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import IntegrityError
from clozeline.pipeline.balance.stage import BalanceStage
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.corrupt.stage import CorruptStage
from clozeline.pipeline.decontaminate.stage import DecontaminateStage
from clozeline.pipeline.dedup.stage import DedupStage
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.group.stage import GroupStage
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.pipeline.tasks.stage import TasksStage
from clozeline.pipeline.tokenize.encode.stage import EncodeStage
from clozeline.pipeline.tokenize.train.stage import TrainTokenizerStage

STAGES = [CleanStage, DedupStage, DecontaminateStage, TrainTokenizerStage, EncodeStage, BalanceStage, GroupStage,
          CorruptStage]  # fmt: skip
ALONE = {
    "clean": """by_source.bad_json by_source.empty by_source.fields by_source.no_text by_source.stop_words_unavailable
        bytes_in characters_out languages.en languages.und malformed_listed.bad_json malformed_listed.empty
        malformed_listed.fields malformed_listed.no_text notes.stop_words_unavailable text_lacks.no""",
    "dedup": """characters_out edited edits.lines edits.spans exact.clusters near.clusters near.members pieces.pairs
        pieces.repeated""",
    "decontaminate": """characters_out entries.full entries.short entries.too_frequent suites.contaminated
        suites.documents suites.overlap_words suites.too_short suites.unreadable suites.words""",
    "train_tokenizer": "sample.bytes sample.en-de sample.und vocabulary.asked vocabulary.size",
    "encode": """characters sentences.found sentences.merged target_languages.de text_by_language.characters
        text_by_language.words tokens_by_language.en tokens_by_language.und tokens_by_source.default
        tokens_by_source.pairs""",
    "balance": "balanced.en-de balanced.und pairs.tokens texts.tokens",
    "group": """copies.documents copies.left_out documents.heldout documents.train documents_dropped.empty samples
        separators sets.empty sets.tokens target_tokens tokens tokens_dropped.cut tokens_dropped.empty tokens_in
        tokens_in_samples""",
    "corrupt": "examples objectives.en objectives.tokens objectives.und samples_in tokens",
}
"""Counts that no other one of a run tells: of a set or a source, its first name and the last."""


def numbers(counts, *above):
    """Return the keys that lead to each number."""
    return [keys for key, value in counts.items()
            for keys in (numbers(value, *above, key) if isinstance(value, dict) else [(*above, key)])]  # fmt: skip


@pytest.fixture(scope="module")
def counted(complete):
    """The stages of a complete run and their counts."""
    stages = [kind(load_recipe(complete[1] / kind.name / "config.yaml")) for kind in STAGES]
    return [(stage, read_report(complete[1] / stage.name / "report.json", "")["counts"]) for stage in stages]


def is_noticed(counted):
    """Return whether a check fails, or a stage consumed more or less than an earlier one gave."""
    given = {}
    for stage, counts in counted:
        try:
            stage.check(counts)
        except IntegrityError:
            return True
        consumed = [one for one in stage.consumes(counts) if one.name in given]
        if any(one.amount != one.times * given[one.name] for one in consumed):
            return True
        given |= stage.provides(counts)
    return False


@pytest.mark.parametrize("number", range(len(STAGES)), ids=[kind.name for kind in STAGES])
def test_each_counter_that_is_off_by_one_is_noticed_or_known_to_stand_alone(counted, number):
    """What stands alone is counted a second time from the files, by `check_run`."""
    assert not is_noticed(counted)
    silent = set()
    for *above, key in numbers(counted[number][1]):
        changed = copy.deepcopy(counted)
        inner = changed[number][1]
        for name in above:
            inner = inner[name]
        inner[key] += 1
        if not is_noticed(changed):
            silent.add(f"{above[0]}.{key.partition(' ')[0]}" if above else key)
    assert silent == {*ALONE[STAGES[number].name].split()}


SPLIT = {"rows_in": 5, "windows": 2, "examples": 6, "tokens": 1200, "refused": {"no_label": 1}, "truncated": 1,
         "truncated_tokens": 30}  # fmt: skip
ROWS = {
    CleanStage: (
        {"documents_in": 3, "records_in": 5, "documents_out": 1, "rejected": {"language": 2, "too_long": 0},
         "malformed": {"bad_utf8": 1}, "ignored": {"type_request": 1}, "notes": {"empty_file": 1},
         "without_records": {"b.txt": 7}},
        ["5 records\n3 documents", "1 document", "2 language", "1 bad_utf8", "1 type_request", "1 empty_file",
         "7 without a record in b.txt",
         "1 of another encoding than UTF-8: name it as `encoding` next to the path of the input"],
    ),
    DedupStage: (
        {"documents_in": 1000, "documents_out": 900, "edited": 3,
         "rejected": {"near_duplicate": 40, "exact_duplicate": 60}},
        ["1,000 documents", "900 documents\n3 of them edited", "60 exact_duplicate, 40 near_duplicate"],
    ),
    DecontaminateStage: (
        {"documents_in": 3, "documents_out": 2, "rejected": {"contaminated": 1},
         "suites": {"a": {"unreadable": 2}, "b": {"unreadable": 1}}},
        ["3 documents", "2 documents", "1 contaminated", "3 without a text"],
    ),
    TrainTokenizerStage: (
        {"documents_in": 9, "sample": {"documents": 5}, "vocabulary": {"size": 4000}, "skipped": {"held_out": 4}},
        ["9 documents", "5 documents\n4,000 ids", "4 held_out"],
    ),
    EncodeStage: (
        {"documents_in": 3, "documents_out": 2, "tokens": 1500, "target_tokens": 4, "rejected": {"no_tokens": 1}},
        ["3 documents", "2 documents\n1,500 tokens\n4 of other sides", "1 no_tokens"],
    ),
    BalanceStage: (
        {"documents_in": 7, "texts": {"en": {"a": {"documents": 2, "tokens": 30}, "b": {"documents": 1, "tokens": 5}}},
         "pairs": {"de": {"a": {"documents": 3, "tokens": 2000}}}, "balanced": {"en": 40, "de": 9},
         "skipped": {"held_out": 1}},
        ["7 documents", "6 documents\n2,035 tokens\n49 in copies", "1 held_out"],
    ),
    GroupStage: (
        {"documents": {"train": 3, "heldout": 1}, "copies": {"left_out": 2}, "sets": {"packed": {
            split: {"samples": 2, "tokens": 600, "tokens_in": 700, "tokens_dropped": {"cut": 100}}
            for split in ("train", "heldout")
        }}},
        ["4 documents", "1 set", "2 without a copy", ["packed", "1,400 tokens", "4 samples\n1,200 tokens", "200 cut"]],
    ),
    CorruptStage: (
        {"examples": 11, "objectives": {"bert": {
            "train": {"samples_in": 8, "examples": 7, "tokens": 900, "skipped": {"too_short": 1}, "overmasked": 2},
            "heldout": {"samples_in": 4, "examples": 4, "tokens": 300, "skipped": {}},
        }}},
        ["1 objective", "11 examples", ["bert", "12 samples\n= 4 x 2 variants\n+ 4 held out",
         "11 examples\n1,200 tokens\n2 with labels on more than half of the row", "1 too_short"]],
    ),
    TasksStage: (
        {**SPLIT, "splits": {"train": {**SPLIT, "notes": {"also_in_train": 3}}, "dev": {**SPLIT, "windows": 0}}},
        ["5 rows", "6 examples\n2 of them further windows of a row\n1,200 tokens", "1 no_label",
         "30 cut off 1 example",
         ["train", "5 rows", "6 examples\n2 of them further windows of a row\n1,200 tokens\n3 also in train",
          "1 no_label", "30 cut off 1 example"],
         ["dev", "5 rows", "6 examples\n1,200 tokens", "1 no_label", "30 cut off 1 example"]],
    ),
}  # fmt: skip
RECIPE = {"corpus": "c", "output": "out", "clean": {}, "dedup": {"spans": {}}, "encode": {"sentences": "regex"},
          "train_tokenizer": {"name": "byte_bpe", "size": 450},
          "corrupt": [{"name": "masked_lm", "label": "bert", "variants": 2}]}  # fmt: skip


def shown(row):
    """Amounts in and out, what is left out, and the same of each part."""
    reasons = [", ".join(reasons) for _, reasons in row.iter_reasons()]
    return [row.amount_in, row.amount_out, *reasons, *([label, *shown(part)] for label, part in row.parts)]


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.name)
def test_the_table_of_a_run_shows_amounts_and_reasons(kind):
    counts, wanted = ROWS[kind]
    assert shown(kind(validate(Recipe, RECIPE, "test")).row(counts)) == wanted


@pytest.mark.parametrize(("kind", "parts"), [
    (CleanStage, ("NORMALIZE_VERSION", "_CLEAN_VERSION")),
    (DedupStage, ("EXACT_VERSION", "NEAR_VERSION", "MATCH_VERSION", "REPEATS_VERSION", "Regex.VERSION")),
    (TrainTokenizerStage, ("SAMPLE_VERSION",)),
], ids=["clean", "dedup", "train_tokenizer"])  # fmt: skip
def test_a_stage_is_made_again_by_a_new_version_of_any_part(monkeypatch, kind, parts):
    stage = kind(validate(Recipe, RECIPE, "test"))
    stage.plan = SimpleNamespace(ranges=[])
    before = stage.version()
    for number, part in enumerate(parts, 1):
        name = f"{kind.__module__}.{part}"
        monkeypatch.setattr(name, pkgutil.resolve_name(name) + 1)
        assert stage.version() == before + number
