import pytest

from tests.pipeline.tokenize.encode import encode_passes as passes


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return passes.write_parts(
        tmp_path_factory.mktemp("clean"), passes.documents(passes.COUNT), passes.PARTS
    )


@pytest.fixture(scope="module")
def tokenizer(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "train_tokenizer"
    passes.train(source, folder)
    return folder / "tokenizer"


@pytest.fixture(scope="module")
def encoded(source, tokenizer):
    folder = tokenizer.parents[1] / "encode"
    passes.encode(source, folder, tokenizer, shards=passes.SHARDS)
    return folder
