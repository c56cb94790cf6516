"""The cells of the labs have no key, option or study that their commands would refuse."""

import importlib
import re
import shlex
from functools import partial
from pathlib import Path

import pytest

from clozeline.__main__ import commands as commands_of_clozeline
from clozeline.configuration.config import save_yaml
from clozeline.extensions.studies.study_plan import load_study
from clozeline.tools.start.lab import all_labs, read_lab, write_lab
from tests import test_docs
from tests.train.synthetic import plain_config


def commands_of_cell(source):
    """Yield the words of each command of a lab's cell; loops have their first value."""
    values = dict(re.findall(r"^ *for (\w+) in (\S+)", source, re.M))
    values |= dict(re.findall(r"^(\w+)=(\S+)$", source, re.M)) | {"1": "bert"}
    for name, value in values.items():
        source = re.sub(rf"\${name}\b", value, source)
    source = source.replace("\\\n", " ").replace('"${@:2}"', "output=tags")
    if '"$@"' in source:
        function = re.search(r"^(\w+)\(\) \{$", source, re.M)[1]
        source = source.replace('"$@"', re.search(rf"^{function} ([^|]*)", source, re.M)[1])
    for command in re.findall(r"\bclozeline (.*?)(?= [|&] | \|\| | 2?>|;|$)", source, re.M):
        yield shlex.split(command)


@pytest.mark.parametrize("name", all_labs())
def test_a_lab_has_no_key_that_its_commands_do_not_read(name, tmp_path, monkeypatch):
    """Its studies and recipes are read, and the words of each command, without the work."""
    lab = read_lab(name)
    write_lab(lab, tmp_path)
    tools = {key: one for group in commands_of_clozeline().values() for key, one in group.items()}
    cells = [cell.source for cell in lab.cells if cell.kind == "sh"]
    for path, text in re.findall(
        r"^cat > (\S+) <<'END'\n(.*?)^END$", "\n".join(cells), re.M | re.S
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")

    for words in (words for source in cells for words in commands_of_cell(source)):
        for run in (tmp_path / word for word in words if word.startswith("runs/")):
            run.mkdir(parents=True, exist_ok=True)
            save_yaml(plain_config(), run / "config.yaml")
        with monkeypatch.context() as patched:
            patched.chdir(tmp_path)
            patched.setattr(test_docs, "ROOT", tmp_path)
            if "--config" in words:
                test_docs.check_clozeline(["clozeline", *words])
                continue
            if words[0] == "study":
                assert load_study(Path(words[1]))[1]
            tool = importlib.import_module(tools[words[0]].module)
            patched.setattr(tool, "run_tool", partial(read_alone, tool.run_tool))
            assert tool.main(words[1:]) == 0, words


def read_alone(run_tool, text, arguments, settings, work, **options):
    """Read the words of a tool, and leave its work out."""
    return run_tool(text, arguments, settings, lambda _: None, **options)
