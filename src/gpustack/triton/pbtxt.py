"""Protobuf's text format, as in config.pbtxt and the v1 status: read without a schema, and written."""

from __future__ import annotations

import re
from typing import NoReturn, TypeAlias, Union

Value: TypeAlias = Union[str, int, float, bool, "Name", "Message"]
Message: TypeAlias = dict[str, list["Value"]]


class Name(str):
    """A word without quotes: a value of an enumeration (TYPE_FP32), not a string."""

    __slots__ = ()


_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?f?|\.\d+))|(?P<word>[A-Za-z_][\w.]*)"""
    r"""|(?P<mark>[{}\[\]:,;<>])"""
)
_CLOSING = {"{": "}", "<": ">"}
_DEEPEST = 50


class _Tokens:
    """The words of a text, with the line of each for errors."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._list: list[tuple[str, str, int]] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                msg = f"line {text.count(chr(10), 0, place) + 1}: {text[place : place + 20]!r} is not valid"
                raise ValueError(msg)
            if match.lastgroup != "space":
                line = text.count("\n", 0, place) + 1
                self._list.append((match.lastgroup or "", match.group(), line))
            place = match.end()
        self._next = 0

    def peek(self) -> str:
        return self._list[self._next][1] if self._next < len(self._list) else ""

    def take(self) -> tuple[str, str]:
        if self._next >= len(self._list):
            msg = "the text ends inside a message"
            raise ValueError(msg)
        kind, word, _ = self._list[self._next]
        self._next += 1
        return kind, word

    def fail(self, wanted: str) -> NoReturn:
        """Raise ValueError with the line that was read last."""
        place = min(self._next, len(self._list)) - 1
        line = self._list[place][2] if self._list else 1
        msg = f"line {line}: {wanted}"
        raise ValueError(msg)


def parse(text: str) -> Message:
    """Read a message; every field is a list, as a field may be repeated. Raises ValueError with the line."""
    tokens = _Tokens(text)
    message = _message(tokens, "", 0)
    if tokens.peek():
        tokens.fail(f"{tokens.peek()!r} has no matching opening bracket")
    return message


def _message(tokens: _Tokens, closing: str, depth: int) -> Message:
    if depth > _DEEPEST:
        tokens.fail("messages are nested too deeply")
    found: Message = {}
    while tokens.peek() != closing:
        kind, name = tokens.take()
        if kind != "word":
            tokens.fail(f"{name!r} is not the name of a field")
        if tokens.peek() == ":":
            tokens.take()
        found.setdefault(name, []).extend(_values(tokens, depth))
        if tokens.peek() in {",", ";"}:
            tokens.take()
    return found


def _values(tokens: _Tokens, depth: int) -> list[Value]:
    if tokens.peek() != "[":
        return [_value(tokens, depth)]
    tokens.take()
    values: list[Value] = []
    while tokens.peek() != "]":
        values.append(_value(tokens, depth))
        if tokens.peek() == ",":
            tokens.take()
        elif tokens.peek() != "]":
            tokens.fail("a comma or ] is missing in a list")
    tokens.take()
    return values


def _value(tokens: _Tokens, depth: int) -> Value:
    kind, word = tokens.take()
    if kind == "mark" and word in _CLOSING:
        inner = _message(tokens, _CLOSING[word], depth + 1)
        tokens.take()
        return inner
    if kind == "string":
        parts = [word]
        # Adjacent strings are concatenated, as in C.
        while tokens.peek()[:1] in {'"', "'"}:
            parts.append(tokens.take()[1])
        return "".join(_unquoted(part) for part in parts)
    if kind == "number":
        return _number(word)
    if kind != "word":
        tokens.fail(f"{word!r} is not a value")
    return {"true": True, "false": False}.get(word, Name(word))


def _number(word: str) -> int | float:
    plain = word.lower()
    if plain.lstrip("+-").startswith("0x"):
        return int(plain, 16)
    if re.fullmatch(r"[-+]?\d+", plain):
        return int(plain)
    return float(plain.rstrip("f"))


def _unquoted(word: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), word[1:-1])


def first(message: Message, name: str) -> Value | None:
    """The first value of a field; None without the field."""
    values = message.get(name)
    return values[0] if values else None


def write(message: Message, indent: str = "") -> str:
    """A message as text, one field a line, that `parse` reads back."""
    lines: list[str] = []
    for name, values in message.items():
        for value in values:
            if isinstance(value, dict):
                lines += [f"{indent}{name} {{", write(value, f"{indent}  ").rstrip("\n"), f"{indent}}}"]
            else:
                lines.append(f"{indent}{name}: {_written(value)}")
    return "\n".join(line for line in lines if line) + "\n"


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Name) or not isinstance(value, str):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
