"""Rules of the source: names that shadow nothing, and acts forbidden to the code.

Those are: unpickle, evaluate, open the network by itself. import-linter watches over the layers of
packages.
"""

import ast
import os
import re
import sys
import tomllib
from collections import Counter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from clozeline.pipeline import all_stages, stage_file
from tests.touched import TRIED, read_git

ROOT = Path(__file__).parents[1]
PACKAGES = ("clozeline", "pipeline", "model", "train", "tools", "extensions")
NESTED_DECLARATIONS = frozenset({"Options", "Configuration", "Tensors"})
"""Classes inside of an algorithm's class, which declare the same thing of each."""
FORBIDDEN_CALLS = frozenset(
    {
        *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
        *(
            "pickle.load",
            "pickle.loads",
            "dill.load",
            "dill.loads",
            "marshal.loads",
            "shelve.open",
            "torch.load",
        ),
        *(
            "yaml.load",
            "yaml.unsafe_load",
            "yaml.full_load",
            "tarfile.extractall",
            "tempfile.mktemp",
        ),
    }
)
FORBIDDEN_IMPORTS = frozenset({"pickle", "dill", "marshal", "shelve"})
USE_EXTENSIONS = (
    "tests/extensions/",
    "tests/benchmarks/",
    "tests/clozeline/bench.py",
    "tests/golden_readers.py",
    "tests/tools/",
)
"""Tests that may need extensions: the bench starts every command, and those of tools score tasks
and smaller models by `evaluate`."""
OWN_TASKS = "pipeline/execution/executors/_executor.py"
"""A worker reads its work, after a check that this user wrote it."""
STARTS = frozenset(
    {
        *(
            f"subprocess.{name}"
            for name in ("Popen", "run", "call", "check_call", "check_output", "getoutput")
        ),
        *(
            f"multiprocessing.{name}"
            for name in ("Process", "Pool", "Manager", "get_context", "set_start_method")
        ),
        *(
            "os.posix_spawn",
            "os.posix_spawnp",
            "os.fork",
            "os.forkpty",
            "pty.spawn",
            "torch.multiprocessing.spawn",
        ),
        *(
            f"os.{kind}{how}"
            for kind in ("exec", "spawn")
            for how in ("l", "le", "lp", "v", "ve", "vp", "vpe")
        ),
    }
)
"""Calls that start a process, or put another program in the place of this one."""
STARTERS = frozenset({"clozeline/process.py", "clozeline/native/build.py"})
"""The latter is a hook of the package's build, which cannot import the package: it starts a
compiler."""
HOST = re.compile(r"https?://([\w.-]+)")
LOCAL_HOSTS = re.compile(
    r"(127\.0\.0\.1|([\w-]+\.)?localhost|HOST|site|h|x\.org|example\.(com|org|net)|.*\.example|www\.w3\.org)"
)
"""Loopback, names reserved for examples, and XML name spaces, which are names and not addresses."""
OF_A_MACHINE = re.compile(rb"/(?:srv|home|root|opt|mnt)/[^\s\"',)]*")
EXAMPLES = (b"/home/ada", b"/home/somebody")
"""Homes in tests of `~`."""


def files(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path):
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def trees():
    """The syntax tree of each file of the packages; millions of objects, gone with the module."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files(*PACKAGES)}


@pytest.fixture
def each(request):
    """The trees of the files that `make try` names, each looked at alone; without it all."""
    chosen = [ROOT / name for name in os.environ.get(TRIED, "").split()]
    if not chosen:
        return request.getfixturevalue("trees")
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in chosen}


def test_a_class_name_stands_once(trees):
    """A reader who searches for a class finds one."""
    names = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name not in NESTED_DECLARATIONS
    )

    assert [name for name, times in names.items() if times > 1] == []


def test_no_file_next_to_a_script_shadows_a_dependency_or_the_standard_library():
    """Python puts a script's own folder first on `sys.path`: `train/queue.py` would break the
    program."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\s<>=!~\[;]", line)[0].lower() for line in project["dependencies"]}
    taken = {name.replace("-", "_") for name in wanted} | set(sys.stdlib_module_names)
    for module, distributions in packages_distributions().items():
        if wanted & {name.lower() for name in distributions}:
            taken.add(module.lower())

    folders = [
        ROOT / "train",
        *(path for path in (ROOT / "tools").iterdir() if path.is_dir()),
        *(ROOT / "extensions").glob("*/commands"),
    ]

    assert not [
        relative(path) for folder in folders for path in folder.iterdir() if path.stem in taken
    ]


def test_no_circle_of_files(trees):
    """Files that import nothing of the rest are taken away until none is left.

    What stays imports itself.
    """
    modules = {}

    for path in files(*PACKAGES):
        parts = path.relative_to(ROOT).with_suffix("").parts
        # whose folders link to those of the parts
        package = () if parts[0] == "clozeline" else ("clozeline",)
        modules[".".join((*package, *(parts[:-1] if path.stem == "__init__" else parts)))] = path

    graph = {name: imports(trees[path], modules) - {name} for name, path in modules.items()}
    # they name interfaces to type checkers
    graph |= {name: set() for name in modules if name.endswith(".registries")}
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    while roots := graph.keys() - set().union(*graph.values()):
        graph = {name: targets for name, targets in graph.items() if name not in roots}

    assert not graph, f"files that import each other: {graph}"


def imports(tree, modules):
    """Return the files that a file imports anywhere: inside functions and for type checkers too."""
    found = set()

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in modules else str(node.module) for name in names}

    return found & modules.keys()


# Security
# --------------------------------------------------------------------------------------------------


def called(node):
    """`a.b.c` of a call's function, as it is written."""
    if isinstance(node, ast.Attribute):
        return f"{called(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def test_each_file_makes_no_code_from_data(each):
    for path, tree in each.items():
        calls = FORBIDDEN_CALLS
        banned = FORBIDDEN_IMPORTS
        if relative(path) == OWN_TASKS:
            calls = calls - {"pickle.loads"}
            banned = banned - {"pickle"}

        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = called(node.func)
                keywords = {one.arg: ast.unparse(one.value) for one in node.keywords}
                safe = (name == "yaml.load" and "Loader" in keywords) or (
                    name == "torch.load" and keywords.get("weights_only") == "True"
                )

                assert name not in calls or safe, f"{path}:{node.lineno}: {name}"
                assert "shell" not in keywords, f"{path}:{node.lineno}: shell="
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                names = (
                    [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else [one.name for one in node.names]
                )
                assert not banned & {name.split(".")[0] for name in names}, f"{path}:{node.lineno}"


OPENERS = frozenset(
    {
        *("open", "os.open", "pa.memory_map", "pa.OSFile", "np.load", "np.memmap", "np.fromfile"),
        *(
            "open_shards",
            "Manifest.load",
            "find_vocabulary",
            "find_file",
            "check_files",
            "PieceFile",
        ),
        *("open_regular", "read_object"),
        *("read_json", "total_counts", "records", "read_records", "UnitRecord.read"),
    }
)
OPENED_ELSEWHERE = {
    ("pipeline/dedup/components.py", "np.memmap"): "a file that the unit has written",
    ("pipeline/dedup/near.py", "PieceFile"): "the line before notes it",
    ("pipeline/clean/exclusion.py", "path.read_bytes"): "its hash is an argument",
    ("extensions/tasks/sets/chat_template.py", "read_text"): "a file of the noted tokenizer",
    ("extensions/tasks/sets/chat_template.py", "read_object"): "a file of the noted tokenizer",
    ("pipeline/tokenize/import_published/stage.py", "file.read_bytes"): "the driver imports it",
}


def opens_a_file(node):
    """Return whether a call opens a file by its path, other than to write it."""
    name = called(node.func)
    first = node.args[0] if node.args else None
    if name in OPENERS:
        return not (isinstance(first, ast.Call) and called(first.func) == "io.BytesIO")
    method = name.rpartition(".")[2]
    is_read = first is None or str(getattr(first, "value", "w")).startswith("r")
    return method in ("read_text", "read_bytes") or (method == "open" and is_read)


def test_units_open_files_through_their_inputs_alone(trees):
    """What a unit opens by itself is not noted in its record, so that a change would be missed.

    The units of a stage are in its folder.
    """
    units = {
        path.parent
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).partition("[")[0] == "Unit" for base in node.bases)
    } - {ROOT / "pipeline/execution"}
    assert {stage_file(name).resolve().parent for name in all_stages()} - units == set()

    found = {
        (relative(path), called(node.func))
        for path, tree in trees.items()
        if path.parent in units
        for part in tree.body
        if not (isinstance(part, ast.ClassDef) and part.name.endswith("Stage"))
        for node in ast.walk(part)
        if isinstance(node, ast.Call) and opens_a_file(node)
    }
    assert found == OPENED_ELSEWHERE.keys()


def origins(tree):
    """Return the dotted name of each name that a file imports from a module."""
    found = {}

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.asname: one.name for one in node.names if one.asname}

    return found


def test_each_file_but_one_starts_no_process(each):
    """Any other would forget to keep the current folder out of the path of modules, where anybody's
    file may lie."""
    others = []

    for path, tree in each.items():
        names = origins(tree)

        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                first, dot, rest = called(node.func).partition(".")
                name = f"{names.get(first, first)}{dot}{rest}"
                context = [
                    *node.args[1:2],
                    *(one.value for one in node.keywords if one.arg == "mp_context"),
                ]

                if name == "concurrent.futures.ProcessPoolExecutor":
                    allowed = any("child_context" in ast.unparse(value) for value in context)
                else:
                    allowed = name not in STARTS or relative(path) in STARTERS
            else:
                name = (
                    called(node)
                    if isinstance(node, ast.Attribute)
                    else names.get(getattr(node, "id", ""), "")
                )
                allowed = name != "sys.executable" or relative(path) == "clozeline/process.py"

            if not allowed:
                others.append(f"{path}:{node.lineno}: {name}")

    assert not others, (
        "use start_child, run_child, python_command or child_context of clozeline/process.py"
    )


def test_each_file_names_no_host(each):
    """No code names a host: the network is used where a person's command or configuration names
    one."""
    for path, tree in each.items():
        documented = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }

        texts = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]

        hosts = [
            host
            for node in texts
            if id(node) not in documented
            for host in HOST.findall(node.value)
        ]

        assert not [host for host in hosts if not LOCAL_HOSTS.fullmatch(host)], path


def test_tests_of_the_main_line_import_no_extension():
    """They run where no extension is; tests of several extensions are in `tests/extensions`."""
    texts = {relative(path): path.read_text(encoding="utf-8") for path in files("tests")}
    found = [name for name, text in texts.items() if "\nfrom clozeline.extensions" in text]
    assert [name for name in found if not name.startswith(USE_EXTENSIONS)] == []


def test_no_tracked_file_holds_a_path_of_a_machine():
    """Whoever has that folder sees the tests pass; nobody else does."""
    names = read_git(ROOT, "ls-files").splitlines()
    paths = [path for name in names if (path := ROOT / name).is_file()]
    found = {
        relative(path): match.group().decode()
        for path in paths
        for match in OF_A_MACHINE.finditer(path.read_bytes())
        if not match.group().startswith(EXAMPLES)
    }

    assert not found
