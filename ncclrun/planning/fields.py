"""What may stand at each place of a cluster file: its JSON schema, and the same in words."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from ncclrun.model.cluster import ClusterFile
from ncclrun.planning.strictyaml import Path

Schema = dict[str, Any]


@cache
def file_schema() -> Schema:
    """The JSON schema of a cluster file as the loader reads it (no field takes null), not to be changed."""
    schema = ClusterFile.model_json_schema()
    blocks = schema["$defs"]
    for block in (schema, *blocks.values()):
        for name, field in block["properties"].items():
            block["properties"][name] = _without_null(field)
    entry = blocks["NodeEntry"]["properties"]
    for block in ("Ssh", "Network", "Launch"):
        for name, field in blocks[block]["properties"].items():
            override = f"Overrides `{block.lower()}.{name}`. {field['description']}"
            entry[name] = {"description": override} | entry[name]
    host = {"type": "string", "description": entry["host"]["description"]}
    schema["properties"]["nodes"]["items"] = {"anyOf": [host, {"$ref": "#/$defs/NodeEntry"}]}
    return schema


def _without_null(field: Schema) -> Schema:
    """The field without `null`, which stands in the model for a line that is left out."""
    field = deepcopy(field)
    field.pop("title", None)
    if field.get("default") is None or isinstance(field["default"], dict):  # a block's default is its fields'
        field.pop("default", None)
    kept = [option for option in field.get("anyOf", ()) if option != {"type": "null"}]
    if len(kept) == 1:
        del field["anyOf"]
        field |= kept[0]
    elif kept:
        field["anyOf"] = kept
    if "patternProperties" in field:
        field["additionalProperties"] = False
    return field


def field_at(path: Path) -> Schema | None:
    """The schema of the field at ``path``, None where there is no such field."""
    field: Schema | None = file_schema()
    for part in path:
        if field is None:
            return None
        if isinstance(part, int):
            field = field.get("items")
        else:
            block = _mapping(field)
            any_name = next(iter(block.get("patternProperties", {}).values()), None)
            field = block.get("properties", {}).get(part, any_name)
    return field


def keys_at(path: Path) -> tuple[str, ...]:
    """The keys that the block at ``path`` knows."""
    return tuple(_mapping(field_at(path) or {}).get("properties", ()))


def _options(field: Schema) -> list[Schema]:
    return [resolve(option) for option in field.get("anyOf", (field,))]


def _mapping(field: Schema) -> Schema:
    return next((option for option in _options(resolve(field)) if option.get("type") == "object"), {})


def resolve(field: Schema) -> Schema:
    """The field with its reference, if it is one, followed."""
    name = field.get("$ref", "").removeprefix("#/$defs/")
    return file_schema()["$defs"][name] | field if name else field


def wanted(field: Schema) -> str:
    """What the field takes, in words: ``a whole number from 1 to 65535, or auto``."""
    return ", or ".join(dict.fromkeys(_words(option) for option in _options(resolve(field))))


def _words(option: Schema) -> str:
    kind = option.get("type")
    if "const" in option or "enum" in option:
        return " or ".join(option.get("enum", [option.get("const")]))
    if kind == "array":
        return f"a list, each item {wanted(option['items'])}"
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(option)
    if kind == "object":
        return "a mapping of " + ("fields" if "properties" in option else "names to values")
    return "true or false" if kind == "boolean" else "text"


def _bounds(option: Schema) -> str:
    keys = ("minimum", "maximum", "exclusiveMinimum")
    low, high, above = (f"{option[key]:g}" if key in option else None for key in keys)  # 10, be it 10 or 10.0
    if above is not None:
        return f" above {above}" + (f", at most {high}" if high is not None else "")
    if low is None:
        return ""
    return f" from {low} to {high}" if high is not None else f", at least {low}"
