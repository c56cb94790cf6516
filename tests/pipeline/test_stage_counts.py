"""What each stage checks of its counts and hands over to later stages."""

import copy
from types import SimpleNamespace

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.execution.runner import check_handover
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.recipe import Recipe, load_recipe, load_stage_part
from tests.pipeline import miniature

ALONE = {
    "clean": """by_source.bad_json by_source.empty by_source.fields by_source.no_text by_source.stop_words_unavailable
        bytes_in languages.en languages.und malformed_bytes.bad_json malformed_bytes.empty malformed_bytes.fields
        malformed_bytes.no_text notes.stop_words_unavailable
        sources.default sources.pairs text_bytes""",
    "dedup": """edited edits.lines edits.spans exact.clusters near.candidates near.clusters near.members
        pieces.pairs pieces.repeated sources.default sources.pairs without_key""",
    "decontaminate": """entries.full entries.short entries.too_frequent sources.default sources.pairs suites.contaminated
        suites.documents suites.items suites.overlap_words suites.too_short suites.unreadable suites.words""",
    "train_tokenizer": """available.en-de available.und sample.bytes sample.en-de sample.und
        vocabulary.asked vocabulary.size""",
    "encode": """characters one_sentence.documents one_sentence.tokens sentences.found sentences.merged
        target_languages.de text_by_language.characters text_by_language.documents text_by_language.sentences
        text_by_language.words
        tokens_by_language.en tokens_by_language.und tokens_by_source.default
        tokens_by_source.pairs unknown_text.characters unknown_text.unknown_tokens""",
    "balance": "tokens.en-de tokens.und",
    "group": "sets.empty sets.left_out sets.samples sources.default sources.pairs",
    "corrupt": "objectives.en objectives.tokens objectives.und",
}
"""Counts that no other one of a run tells: of a set or a source, its first name and the last."""
STAGES = [load_stage_part(name, "Stage") for name in miniature.STAGES if name in ALONE]


@pytest.mark.parametrize("name", miniature.STAGES)
def test_each_stage_runs_in_the_complete_recipe_and_has_counts(name):
    assert f"\n{name}:" in miniature.COMPLETE
    assert ALONE[name]


def numbers(counts, *above):
    return [
        keys
        for key, value in counts.items()
        for keys in (numbers(value, *above, key) if isinstance(value, dict) else [(*above, key)])
    ]


@pytest.fixture(scope="module")
def counted(complete):
    stages = [kind(load_recipe(complete[1] / kind.name / "config.yaml")) for kind in STAGES]
    return [(stage, read_report(complete[1] / stage.name)["counts"]) for stage in stages]


def is_noticed(counted):
    """Return whether a check fails, or a stage read more or less than an earlier one wrote."""
    last = None
    try:
        for stage, counts in counted:
            stage.check(counts)
            if last:
                check_handover(last, stage, counts)
            if "documents_out" in counts:
                last = SimpleNamespace(stage=stage, counts=counts)
    except IntegrityError:
        return True
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


class OwnStage(Stage):
    """A stage of a user that writes documents, and says nothing of its counts."""

    name = "own"
    writes_documents = True
    passes = row = None


@pytest.mark.parametrize(
    "counts", [{}, {"documents_in": 40, "documents_out": 30}, {"documents_out": 40}]
)
def test_a_stage_without_counts_fails_by_its_name(counts):
    stage = OwnStage(validate(Recipe, {"corpus": "own", "output": "out"}, "recipe"))
    after = SimpleNamespace(folder=stage.folder, name="encode", count_read_documents=lambda _: [40])

    def run():
        stage.check(counts)
        check_handover(SimpleNamespace(stage=stage, counts=counts), after, {})

    with pytest.raises(IntegrityError, match="own"):
        run()
