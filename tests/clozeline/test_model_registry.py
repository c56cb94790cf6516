import pytest

from clozeline.errors import ConfigurationError
from clozeline.registry import find, names
from tests.temporary_module import temporary_module


@pytest.mark.parametrize("package", ["clozeline.model.families", "model.heads"])
def test_registry_files_hold_the_class_they_are_named_for(package):
    for name in names(package):
        entry = find(package, name)
        assert entry.__name__.lower() == name.replace("_", "")
        assert entry.__doc__
        assert entry.needs


def test_an_unknown_entry_names_the_nearest():
    with pytest.raises(ConfigurationError, match="did you mean 'masked_lm'"):
        find("clozeline.model.heads", "maskd_lm")


def test_a_class_is_found_by_the_name_of_its_file_beside_others(tmp_path):
    source = "from model.heads.lm import Lm\n\nclass Other:\n    pass\n\n\nclass TwoWords:\n    pass\n"
    with temporary_module("clozeline.model.heads", "two_words", source, tmp_path):
        assert "two_words" in names("clozeline.model.heads")
        assert find("clozeline.model.heads", "two_words").__name__ == "TwoWords"
    source = "from model.heads.lm import Lm as LmAgain\n"
    holds_none = pytest.raises(ConfigurationError, match="holds no class named like its file")
    with temporary_module("clozeline.model.heads", "lm_again", source, tmp_path), holds_none:
        find("clozeline.model.heads", "lm_again")
    assert "two_words" not in names("clozeline.model.heads")
