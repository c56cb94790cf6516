"""The code of one's own algorithms is a part of what a run and a stage are: of the classes that
run, of every kind."""

import json
import os
import sys
from itertools import islice

import pytest

from clozeline import plugins
from clozeline.configuration.config import load_config, to_data, validate, yaml_text
from clozeline.configuration.named_algorithms import allow_words
from clozeline.pipeline.execution.arguments import Describer, describe_algorithms
from clozeline.pipeline.execution.plan import Plan, PlannedRange
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.recipe import InputEntry, Recipe
from clozeline.pipeline.registries import GROUPINGS
from clozeline.registry import component_types
from clozeline.train.configuration.config import TrainConfig, frozen
from tests.refusals import refused
from tests.train.synthetic import plain_config, tiny

EDIT = "\n# edited\n"


@pytest.fixture
def module_of(tmp_path, monkeypatch):
    """Return a function that writes a module, allows its import, and returns its file."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, text):
        file = tmp_path / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
        names.append(name)
        monkeypatch.setenv(plugins.VARIABLE, ",".join(names))
        return file

    yield write
    for name in names:
        sys.modules.pop(name, None)


def subclass_of(base):
    """The source of a module with a class `Mine` like one of Clozeline."""
    module, _, name = base.partition(":")
    return f"from clozeline.{module} import {name}\n\n\nclass Mine({name}):\n    pass\n"


OF_RUNS = {
    "head": ("model.heads.masked_lm:MaskedLMHead", {"model__heads": {"{}": 1.0}}),
    "head_with_keys": (
        "extensions.tasks.heads.classification:ClassificationHead",
        {"model__heads": {"{}": {"labels": ["a", "b"]}}},
    ),
    "family": ("model.families.encoder:Encoder", {"model__family": "{}"}),
    "adapter": ("model.adapters.lora:Lora", {"model__adapter": "{}", "model__init_from": "folder"}),
    "optimizer": (
        "train.optim.optimizers.adamw:AdamW",
        {"optimizer": {"name": "{}", "learning_rate": 0.1}},
    ),
    "schedule": ("train.optim.schedules.linear:LinearSchedule", {"schedule": "{}"}),
    "regularizer": (
        "train.optim.regularizers.l2_sp:L2Sp",
        {
            "regularizer": "{}",
            "model__init_from": "folder",
            "optimizer": {"name": "adamw", "weight_decay": 0},
        },
    ),
    "pruning": (
        "extensions.compression.pruning.magnitude:MagnitudePruning",
        {"prune": {"name": "{}", "sparsity": 0.5}},
    ),
    "hook": ("train.hooks.average:Average", {"hooks": ["{}"]}),
    "loss": (
        "extensions.compression.distillation.losses.scores:ScoresLoss",
        {"distil": {"teacher": "t", "losses": ["{}"]}},
    ),
    "objective": ("pipeline.corrupt.objectives.masked_lm:MaskedLM", {"data__corrupt": "{}"}),
    "objective_of_phase": (
        "pipeline.corrupt.objectives.masked_lm:MaskedLM",
        {"data__shards": None, "data__phases": [{"shards": "a", "corrupt": "{}"}]},
    ),
    "objective_in_another": (
        "pipeline.corrupt.objectives.text_infilling:TextInfilling",
        {"data__corrupt": {"name": "composition", "steps": ["sentence_reordering", "{}"]}},
    ),
}


def filled(value, name):
    if isinstance(value, dict):
        return {key.replace("{}", name): filled(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, name) for item in value]
    return value.replace("{}", name) if isinstance(value, str) else value


@pytest.mark.parametrize("kind", OF_RUNS)
def test_a_run_tells_other_code_of_every_kind(module_of, kind):
    base, changes = OF_RUNS[kind]
    file = module_of(f"mine_{kind}", subclass_of(base))
    config = tiny(**filled(changes, f"mine_{kind}:Mine"))
    before = frozen(config)
    file.write_text(file.read_text() + EDIT)
    after = frozen(config)

    assert {key for key in before if before[key] != after[key]} == {f"code.mine_{kind}:Mine"}


def test_hooks_that_only_observe_may_change(module_of):
    module_of("mine_statistics", subclass_of("train.hooks.layer_statistics:LayerStatistics"))
    assert frozen(tiny(hooks=["mine_statistics:Mine"])) == frozen(tiny())


def test_a_text_that_looks_like_a_name_is_none(module_of):
    """Labels, and sets, may have a colon.

    The key of a head may look like a module below `model.heads`.
    """
    labels = {"classification": {"labels": ["sport:Tennis", "sport:Golf"]}}
    config = tiny(model__heads=labels, data__shards="memory:Sets", seed=1)
    assert not [key for key in frozen(config) if key.startswith("code.")]


def test_the_code_is_that_of_the_class_wherever_its_name_leads(module_of):
    """A package that imports the class, and a base class in another module of it."""
    base = module_of("mylib.base", subclass_of("train.optim.schedules.linear:LinearSchedule"))
    file = module_of(
        "mylib.schedules", "from mylib.base import Mine\n\n\nclass Falling(Mine):\n    pass\n"
    )
    module_of("mylib.names", "from mylib.schedules import Falling\n")
    config = tiny(schedule="mylib.names:Falling")
    found = [frozen(config)]
    for edited in (base, file):
        edited.write_text(edited.read_text() + EDIT)
        found.append(frozen(config))

    assert len({one["code.mylib.schedules:Falling"] for one in found}) == 3


OF_STAGES = {
    "filter": (
        "clean",
        "pipeline.clean.filters.c4_quality:C4Quality",
        {"clean": {"filters": ["{}"], "language": None}},
    ),
    "filter_of_source": (
        "clean",
        "pipeline.clean.filters.c4_quality:C4Quality",
        {
            "clean": {"language": None, "sources": {"web": {"filters": ["{}"]}}},
            "input": [{"path": "x.txt", "source": "web"}],
        },
    ),
    "extractor": (
        "clean",
        "pipeline.clean.extractors.resiliparse:ResiliparseExtractor",
        {"clean": {"extractor": "{}"}},
    ),
    "language": (
        "clean",
        "pipeline.clean.languages.py3langid:Py3langid",
        {"clean": {"language": "{}"}},
    ),
    "reader": (
        "clean",
        "pipeline.ingest.readers.jsonl:JsonlReader",
        {"clean": {}, "input": [{"path": "x", "reader": "{}"}]},
    ),
    "reader_of_tasks": (
        "tasks",
        "extensions.tasks.readers.squad:SquadReader",
        {"tasks": {"reader": "{}"}},
    ),
    "sentences": ("encode", "pipeline.text.sentences.lines:Lines", {"encode": {"sentences": "{}"}}),
    "words": ("encode", "pipeline.text.words.given:Given", {"encode": {"words": {"en": "{}"}}}),
    "tokenizer": (
        "train_tokenizer",
        "pipeline.tokenize.tokenizers.word:Word",
        {"train_tokenizer": {"name": "{}", "size": 1000}},
    ),
    "objective": ("corrupt", "pipeline.corrupt.objectives.masked_lm:MaskedLM", {"corrupt": "{}"}),
    "grouping": (
        "group",
        "pipeline.group.groupings.full_sentences:FullSentencesGrouping",
        {"group": {}},
    ),
}


def plan_of(recipe):
    """Return the plan of a recipe whose inputs are not opened."""
    entries = recipe.input or [InputEntry(path="x", reader="text")]
    ranges = [
        PlannedRange(number, f"{each.source}/{number}", each.source, each.reader or "text", 0, 1)
        for number, each in enumerate(entries)
    ]
    inputs = [
        {"source": each.source, "bytes": 1, "options": {}, "reader": each.reader, "identity": ""}
        for each in ranges
    ]
    return Plan(tuple(ranges), 1, tuple(inputs))


def description_of(stage, kind, name):
    """Return the arguments of the units of passes, and the options that they share."""
    if kind == "grouping":  # an objective names it
        return describe_algorithms([GROUPINGS.load_class(name)])
    if stage.name in ("corrupt", "tasks"):  # their passes need files
        return describe_algorithms(component_types(stage.config))
    return units_of(stage)


def units_of(stage):
    describer = Describer()
    passes = stage.passes()
    works = passes if stage.name == "train_tokenizer" else [*islice(passes, 1)]
    units = (unit for work in works for unit in work.units.values())
    return [describer.describe(unit) for unit in units], describer.options


@pytest.mark.parametrize("kind", OF_STAGES)
def test_a_stage_tells_other_code_of_every_kind(module_of, kind):
    """With the reader that the plan names, and a sample set whose grouping an objective names."""
    stage_name, base, keys = OF_STAGES[kind]
    name = f"mine_of_{kind}:Mine"
    file = module_of(f"mine_of_{kind}", subclass_of(base))
    keys = filled({"clean": {}, "train_tokenizer": {}, **keys}, name)
    if isinstance(keys.get("corrupt"), str):
        keys["corrupt"] = [{"name": keys["corrupt"]}]
    recipe = validate(Recipe, {"corpus": "c", "output": "out", **keys}, "test")

    def describe():
        return description_of(stage_of(recipe, stage_name, plan_of(recipe)), kind, name)

    before = describe()

    assert describe() == before

    file.write_text(file.read_text() + EDIT)

    assert describe() != before


def test_evaluation_files_have_readers_too(module_of, tmp_path):
    file = module_of("mine_items", subclass_of("extensions.tasks.readers.squad:SquadReader"))
    (tmp_path / "dev.json").write_text('{"data": [{"paragraphs": []}]}')
    path = str(tmp_path / "dev.json")
    keys = {"decontaminate": {"against": [{"path": path, "reader": "mine_items:Mine"}]}}
    keys = {"corpus": "c", "output": "out", "clean": {}, **keys}
    recipe = validate(Recipe, keys, "test")

    def describe():
        return units_of(stage_of(recipe, "decontaminate", plan_of(recipe)))

    before = describe()
    file.write_text(file.read_text() + EDIT)

    assert describe() != before


def names_allowed():
    return os.environ[plugins.VARIABLE].split(",")


NAMED = {f"run {kind}": (base, changes) for kind, (base, changes) in OF_RUNS.items()}
NAMED |= {
    f"stage {kind}": (base, keys)
    for kind, (_, base, keys) in OF_STAGES.items()
    if kind != "grouping"
}
NAMED["evaluation_items"] = (
    "extensions.tasks.readers.squad:SquadReader",
    {"decontaminate": {"against": [{"path": "dev.json", "reader": "{}"}]}},
)
NAMED["executor"] = ("pipeline.execution.executors.local:Local", {"executor": {"name": "{}"}})


@pytest.mark.parametrize("kind", NAMED)
def test_each_key_that_names_an_algorithm_allows_its_import(tmp_path, monkeypatch, module_of, kind):
    """In the user's own file, and in `key=value` words over the file of somebody else.

    Such a file alone does not.
    """
    base, keys = NAMED[kind]
    name = f"named_{kind.replace(' ', '_')}"
    module_of(name, subclass_of(base))
    keys = filled(keys, f"{name}:Mine")
    if kind == "stage objective":
        keys["corrupt"] = [{"name": keys["corrupt"]}]
    if kind.startswith("run "):
        schema = TrainConfig
        plain = plain_config(**keys)
    else:
        schema = Recipe
        plain = {"corpus": "c", "output": "out", **keys}

    file = tmp_path / "theirs.yaml"
    file.write_text(yaml_text(plain))
    monkeypatch.setenv(plugins.VARIABLE, "")
    with refused(f"write CLOZELINE_IMPORT={name}:Mine"):
        load_config(schema, file)
    words = [
        f"{key.replace('__', '.')}={json.dumps(value)}"
        for key, value in keys.items()
        if name in str(value)
    ]

    load_config(schema, file, words)

    assert names_allowed() == [f"{name}:Mine"]

    monkeypatch.setenv(plugins.VARIABLE, "")
    load_config(schema, file, is_users=True)

    assert names_allowed() == [f"{name}:Mine"]


def test_a_text_that_looks_like_a_name_allows_nothing(tmp_path, monkeypatch, module_of):
    """The type of a key says whether it names an algorithm: labels, sets and folders may have a
    colon."""
    module_of("theirs", subclass_of("train.optim.schedules.linear:LinearSchedule"))
    monkeypatch.setenv(plugins.VARIABLE, "")
    own = tmp_path / "own.yaml"
    foreign = tmp_path / "foreign.yaml"
    labels = {"classification": {"labels": ["theirs:Mine", "other"]}}
    own.write_text(yaml_text({**plain_config(model__heads=labels), "output": "theirs:Mine"}))
    foreign.write_text(yaml_text({**plain_config(), "schedule": "theirs:Mine"}))
    load_config(TrainConfig, own, ["output=theirs:Mine", "data.shards=theirs:Mine"], is_users=True)

    assert not os.environ[plugins.VARIABLE]

    with refused("write CLOZELINE_IMPORT=theirs:Mine"):
        load_config(TrainConfig, foreign, ["output=theirs:Mine"])
    config = load_config(TrainConfig, foreign, ["schedule.name=theirs:Mine", "schedule.warmup=1"])

    assert to_data(config)["schedule"]["name"] == "theirs:Mine"


def test_words_name_algorithms_in_lists_and_in_options_of_others(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "")
    allow_words(
        Recipe,
        [
            "corrupt.0.name=a.b:C",
            "clean.filters=[d:E, {name: f:G}]",
            "clean.sources.web.extractor=h:I",
        ],
    )

    allow_words(
        Recipe,
        ["corrupt=[{name: composition, steps: [{name: j:K}], label: l:M}]", "input.reader=n:O"],
    )

    assert names_allowed() == ["a.b:C", "d:E", "f:G", "h:I", "j:K", "n:O"]
