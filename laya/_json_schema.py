"""Flatten a JSON schema: references, unions and null out of the way, one level of keywords left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KEYWORD = "laya"
"""The schema keyword that says what a JSON schema can't: {"type", "criteria", "labels", "option_order"}."""
MEMBERS = "x-laya-members"
"""Python values beside "enum", in its order; only in a schema made from a pydantic model."""
NAMES = "x-enum-varnames"
"""Names of the values, beside "enum", in its order."""


class UnreadableSchema(Exception):
    """Say why a schema can't be read; the reader of a field adds the field's name."""


def flatten(schema: Any, root: Mapping[str, Any], seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return `schema` without $ref, allOf, anyOf, oneOf, const and null.

    The outer keyword wins over the one it refers to. "nullable" says whether null was among the values,
    and a schema of null alone comes back with the type "null". `seen` holds the references on the way here.
    """
    if not isinstance(schema, Mapping):
        raise UnreadableSchema("its schema is no object")
    flat = {key: schema[key] for key in schema if key not in ("$ref", "allOf", "anyOf", "oneOf")}
    flat = _normalise(flat)
    if "$ref" in schema:
        reference = schema["$ref"]
        if reference in seen:
            raise UnreadableSchema(f"its $ref {reference!r} leads back to itself")
        target = flatten(_look_up(reference, root), root, (*seen, reference))
        # A definition's title and description are its class's name and docstring, no wording for a field.
        target = {key: target[key] for key in target if key not in ("title", "description")}
        flat = _merge(flat, target)
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema:
            parts = [flatten(part, root, seen) for part in schema[keyword]]
            flat = _merge(flat, _unite(parts, keyword))
    return flat


def _normalise(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        rest = [kind for kind in kinds if kind != "null"]
        if len(rest) > 1:
            raise UnreadableSchema(f"it is a union of several types ({', '.join(map(str, rest))})")
        schema["type"] = rest[0] if rest else "null"
        schema["nullable"] = len(rest) < len(kinds)
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if "enum" in schema:
        if not isinstance(schema["enum"], list | tuple):
            raise UnreadableSchema("its enum is no list")
        _drop_null(schema)
    if KEYWORD in schema and not isinstance(schema[KEYWORD], Mapping):
        schema[KEYWORD] = {"type": schema[KEYWORD]}
    return schema


def _drop_null(schema: dict[str, Any]) -> None:
    """Take null out of an enumeration, and out of the lists that run beside it."""
    kept = [index for index, value in enumerate(schema["enum"]) if value is not None]
    if len(kept) == len(schema["enum"]):
        return
    schema["nullable"] = True
    for keyword in ("enum", MEMBERS, NAMES):
        if keyword in schema:
            schema[keyword] = [schema[keyword][index] for index in kept]
    if not kept:
        del schema["enum"]
        schema["type"] = "null"


def _look_up(reference: Any, root: Mapping[str, Any]) -> Any:
    target: Any = root
    steps = str(reference).split("/")
    if steps[0] != "#":
        raise UnreadableSchema(f"its $ref {reference!r} points outside of the schema")
    for step in steps[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, Mapping) or key not in target:
            raise UnreadableSchema(f"its $ref {reference!r} points nowhere")
        target = target[key]
    return target


def _unite(parts: Sequence[dict[str, Any]], keyword: str) -> dict[str, Any]:
    """Return the one schema that a union comes to: null aside, a single part or enumerations only."""
    if keyword == "allOf":
        if len(parts) != 1:
            raise UnreadableSchema("it is an allOf of several schemas")
        return parts[0]
    rest = [part for part in parts if part.get("type") != "null"]
    nullable = len(rest) < len(parts) or any(part.get("nullable") for part in rest)
    if len(rest) == 1:
        united = rest[0]
    elif rest and all("enum" in part for part in rest):
        united = _join(rest)
    else:
        raise UnreadableSchema("it is a union of several types")
    return {**united, "nullable": nullable}


def _join(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join enumerations; a single value described by its own part keeps the description."""
    joined: dict[str, Any] = {"enum": [value for part in parts for value in part["enum"]]}
    if any(MEMBERS in part for part in parts):
        joined[MEMBERS] = [value for part in parts for value in part.get(MEMBERS, part["enum"])]
    texts = [part.get("description", part.get("title")) if len(part["enum"]) == 1 else None for part in parts]
    if all(len(part["enum"]) == 1 for part in parts) and any(texts):
        joined[KEYWORD] = {"criteria": texts}
    return joined


def _merge(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    merged = {**inner, **outer}
    if KEYWORD in outer and KEYWORD in inner:
        merged[KEYWORD] = {**inner[KEYWORD], **outer[KEYWORD]}
    if inner.get("nullable"):
        merged["nullable"] = True
    return merged
