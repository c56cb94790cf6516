"""Files that a user would bring to the commands of the bench: texts, recipes, configurations and a study."""

import shutil

import yaml

from clozeline import HOME
from tests.pipeline import miniature, task_files
from tests.tools.experiments.multirun.small_study import write_study
from tests.train.synthetic import plain_config

SET, TASK_SET = "corpus1/corrupt/masked_lm/train", "task1/out/tasks/sst2/train"
HERE = "/proc/self/cwd"
_STAGES = miniature.RECIPE[: miniature.RECIPE.index("corrupt:")].replace("group:", "balance: {}\ngroup:")
_MASKED = "{name: masked_lm, max_length: 64, block_rows: 16}"
_TASK_FILE = "{path: task1/files/train.tsv, reader: {name: glue, task: sst2}}"
_TUNING = (
    "model: {heads: {classification: {hidden: tanh}}}\noptimizer: {name: adamw, learning_rate: 0.01}\n"
    "schedule: {name: linear, warmup: 1}\ndata: {global_batch: 16, lanes: 4, micro_batch: 8}\nsteps: 2\n"
)
_TRAININGS = {
    "train.yaml": {"output": "encoder1", "model__type_vocab_size": 2},
    "start.yaml": {"model": {"heads": {"masked_lm": 1.0}}},
    "decoder.yaml": {
        "output": "decoder1", "data__shards": f"{HERE}/corpus1/corrupt/causal_lm/train",
        "model__family": "decoder", "model__heads": {"lm": 1.0},
    },
    "task1/train.yaml": {
        "output": "task1/run", "data__shards": f"{HERE}/{TASK_SET}",
        "model__heads": {"classification": {"hidden": "tanh"}},
    },
}  # fmt: skip


def write_inputs(folder):
    """Write everything that the lines of the bench need and no command makes."""
    # texts and recipes of the pipeline
    miniature.write_corpus(folder / "crawl", 25)
    plain = _STAGES.replace("dedup:", f"decontaminate: {{against: [items1.txt, {_TASK_FILE}]}}\ndedup:")
    miniature.write_recipe(folder, f"{plain}corrupt: [{_MASKED}, {{name: causal_lm, max_length: 64}}]\n")
    (folder / "items1.txt").write_text(" ".join(miniature.text(9, 15).split()[7:40]) + "\n", encoding="utf-8")
    task_files.write_task(folder / "task1" / "files")
    task_files.write_vocabulary(folder / "task1" / "words")
    task_files.write_recipe(folder / "task1")
    # configurations of the trainer
    usual = {
        "data__shards": f"{HERE}/{SET}", "model__position": {"maximum": 64}, "steps": 2, "checkpoint__every": 1,
    }  # fmt: skip
    for name, changes in _TRAININGS.items():
        (folder / name).write_text(yaml.safe_dump(plain_config(**{**usual, **changes})), encoding="utf-8")
    # small files of some tools
    shutil.copy(HOME / "configs" / "prompts" / "polarity_cloze.yaml", folder / "prompt.yaml")
    (folder / "texts.txt").write_text("a text\n", encoding="utf-8")
    (folder / "words.txt").write_text("immunology " * 30, encoding="utf-8")
    for name in ("first", "second"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, "shards": TASK_SET}), encoding="utf-8")
    (folder / "tuning").mkdir()
    shutil.copy(folder / "task1" / "recipe.yaml", folder / "tuning" / "pipeline.yaml")
    (folder / "tuning" / "train.yaml").write_text(_TUNING, encoding="utf-8")
    # a study of two variants
    study = write_study(folder, flops=3e8, one="masked_lm", two="more")
    short = _MASKED.replace("64", "48")
    more = "{name: masked_lm, label: more, max_length: 48, mask_rate: 0.3}"
    (study / "pipeline.yaml").write_text(f"{_STAGES}corrupt: [{short}, {more}]\n", encoding="utf-8")
