"""YAML without the traps of YAML 1.1: `3e-4` is a number, `no` and `12:30` are strings, duplicate keys are errors."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

_REPLACED = (":bool", ":int", ":float", ":timestamp")


class StrictLoader(yaml.SafeLoader):
    """Safe YAML where only `true` and `false` are booleans, `3e-4` is a float and keys are unique."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(_REPLACED)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping; a key that is given twice is an error."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in seen:
                problem = f"key {key!r} is given twice" if isinstance(key, Hashable) else "a key is a list or a mapping"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
# No numbers of base 60 (`12:30`) and no octal ones (`010`), which are rarely meant.
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+)$"), list("-+0123456789")
)
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.inf|\.nan)$"),
    list("-+0123456789."),
)


def parse_yaml(text: str) -> Any:
    """Return the plain data of a YAML text; YAMLError if it is malformed, nested too deeply, or gives a key twice."""
    try:
        return yaml.load(text, Loader=StrictLoader)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except ValueError as error:  # a number without digits, such as 0b_
        raise yaml.YAMLError(str(error)) from error


class _StrictDumper(yaml.SafeDumper):
    """Safe YAML that quotes each string that a loader of YAML 1.1 or 1.2 would read as another type."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so by PyYAML)
        first: [
            *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
            *StrictLoader.yaml_implicit_resolvers.get(first, []),
        ]
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *StrictLoader.yaml_implicit_resolvers}
    }


_LINE_BREAKS_OF_YAML = re.compile("[\x85\u2028\u2029\ufeff]")


# A text with a line break that only YAML knows is quoted: PyYAML writes it as it is, and reads it back as a blank.
_StrictDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if _LINE_BREAKS_OF_YAML.search(text) else None
    ),
)


def dump_yaml(data: Any) -> str:
    """Return plain data as a YAML text that `parse_yaml` reads as the same, keys in their own order."""
    text: str = yaml.dump(data, Dumper=_StrictDumper, sort_keys=False, allow_unicode=True)
    return text
