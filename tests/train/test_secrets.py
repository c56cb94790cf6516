"""A run with credentials: none of its files and nothing that it prints holds one."""

from pathlib import Path

from clozeline.tools.shards import explain_batch
from clozeline.train.checkpoint.trained_model import read_config
from tests.distributed import run_ranks
from tests.range_site import ShardServer
from tests.train import faulty
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import steps

SECRETS = {
    "secret": "s3cr3t/Value+1",
    "key": "AKIAEXAMPLEKEY",
    "token": "tok-987654",
    "password": "pass word 1",
}
NESTED = "nested-hush-5"
USER_PASSWORD = "url%2Dpassw0rd"
HIDDEN = [*SECRETS.values(), NESTED, USER_PASSWORD, "url-passw0rd"]


def test_no_file_and_no_line_of_a_run_holds_a_secret(tmp_path, capsys):
    """Trained, shown, stopped by a fault, resumed.

    The resumed run takes the secrets from its own configuration.
    """
    shards = write_masked_sets(tmp_path / "corrupt")
    server = ShardServer(shards.parent)
    output = tmp_path / "run"
    logs = tmp_path / "logs"
    logs.mkdir()
    said = ""

    def train(code, *overrides):
        nonlocal said
        finished = run_ranks(
            1, faulty.train_normally, "--config", str(config), *overrides, folder=logs
        )
        said += "".join((*finished.outputs, *finished.errors))

        assert finished.codes == [code], finished.errors

    with server.site.running():
        url = server.url.replace("//", f"//me:{USER_PASSWORD}@")
        options = {"client_kwargs": {"headers": {**SECRETS, "aws_secret_access_key": NESTED}}}
        changes = {"data__store": {"retries": 0, "fsspec": options}, "data__heldout": {"toy": url}}
        config = write_config(tmp_path / "a.yaml", Path(url), output, **changes)
        train(0, "--dry-run")
        train(0, "steps=3")
        train(64, "model.heads={sentence: 1.0}")
        train(64, "data.lanes=3")
        server.faults = ["500"]
        train(74, "steps=4")
        train(0)

        assert "from step-00000003: " in said
        assert explain_batch.main(["--run", str(output), "--samples", "0"]) == 0

        seen = capsys.readouterr()
        said += seen.out + seen.err

        assert read_config(output).data.store.fsspec == {"client_kwargs": {}}

    train(74)
    files = [path for path in output.rglob("*") if path.is_file()]

    assert {"config.yaml", "report.html", "events.jsonl", "status.json", "metrics.jsonl"} <= {
        path.name for path in files
    }
    assert len(steps(output)) == 8

    for secret in HIDDEN:
        assert secret not in said, said
        assert [path for path in files if secret.encode() in path.read_bytes()] == []

    assert "***@127.0.0.1" in said
