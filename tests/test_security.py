"""Acts forbidden to the code: unpickle, evaluate, open the network by itself, mix the offline side with torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.matrices import mark_slow_but

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for folder in ("pipeline", "model", "train", "tools") for path in (ROOT / folder).rglob("*.py"))
FORBIDDEN_CALLS = frozenset(
    {
        *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
        *("pickle.load", "pickle.loads", "dill.load", "dill.loads", "marshal.loads", "shelve.open", "torch.load"),
        *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "tarfile.extractall", "tempfile.mktemp"),
    }
)
OWN_TASKS = "pipeline/execution/executors/slurm.py"
"""A task of a job reads its work, after a check that this user wrote it."""
FORBIDDEN_IMPORTS = frozenset({"pickle", "dill", "marshal", "shelve"})
HOST = re.compile(r"https?://([\w.-]+)")
LOCAL_HOSTS = re.compile(
    r"(127\.0\.0\.1|([\w-]+\.)?localhost|HOST|site|h|x\.org|example\.(com|org|net)|.*\.example|www\.w3\.org)"
)
"""Loopback, names reserved for examples, and XML name spaces, which are names and not addresses."""


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each file of the product; millions of objects, gone with the module."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def called(node: ast.AST) -> str:
    """`a.b.c` of a call's function, as it is written."""
    if isinstance(node, ast.Attribute):
        return f"{called(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_no_code_from_data(trees: dict[Path, ast.Module]) -> None:
    for path, tree in trees.items():
        calls, imports = FORBIDDEN_CALLS, FORBIDDEN_IMPORTS
        if relative(path) == OWN_TASKS:
            calls, imports = calls - {"pickle.load"}, imports - {"pickle"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = called(node.func)
                safe_yaml = name == "yaml.load" and any(keyword.arg == "Loader" for keyword in node.keywords)
                safe_torch = name == "torch.load" and any(
                    keyword.arg == "weights_only" and ast.unparse(keyword.value) == "True" for keyword in node.keywords
                )
                assert name not in calls or safe_yaml or safe_torch, f"{path}:{node.lineno}: {name}"
                shell = [keyword for keyword in node.keywords if keyword.arg == "shell"]
                assert not shell, f"{path}:{node.lineno}: shell="
            elif isinstance(node, ast.Import):
                assert not imports & {alias.name.split(".")[0] for alias in node.names}, f"{path}:{node.lineno}"
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in imports, f"{path}:{node.lineno}"


def test_no_network_hosts(trees: dict[Path, ast.Module]) -> None:
    """No code names a host: the network is used where a person's command or configuration names one."""
    for path, tree in trees.items():
        documented = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        hosts = [host for node in texts if id(node) not in documented for host in HOST.findall(node.value)]
        assert not [host for host in hosts if not LOCAL_HOSTS.fullmatch(host)], path


@pytest.mark.parametrize(
    ("package", "forbidden"),
    mark_slow_but(
        [("clozeline.pipeline", "torch deepspeed transformers")],
        [
            ("clozeline.pipeline", "torch deepspeed transformers"),
            ("clozeline.model", "clozeline.pipeline deepspeed datatrove"),
            ("clozeline.train", "clozeline.tools"),
        ],
    ),
)
def test_packages_do_not_pull_each_other_in(package: str, forbidden: str) -> None:
    """Importing every module of one side, in a fresh process, loads nothing of the other."""
    code = (
        f"import importlib, pkgutil, sys, {package}\n"
        f"for module in pkgutil.walk_packages({package}.__path__, '{package}.'):\n"
        "    if not module.name.endswith('__main__') and module.name != 'clozeline.train.main':\n"
        "        importlib.import_module(module.name)\n"
        f"print(*sorted(set(sys.modules) & set('{forbidden}'.split())))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""
