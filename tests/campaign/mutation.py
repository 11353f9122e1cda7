"""Damage: bytes flipped, cut, joined wrongly; values of JSON and TOML that nobody expects."""

import json
import random
from pathlib import Path
from typing import Any

ABSURD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "nan",
    "/", "..", "\u0000", "a" * 5000, "\U0001f4f7", [], {}, [[]], [1, "a", None], {"a": {"b": []}},
)  # fmt: skip


def damage(rng: random.Random, data: bytes) -> bytes:
    """Change bytes in one of the ways in which files break."""
    if not data:
        return rng.randbytes(rng.randrange(1, 50))
    ways = (_flip, _flip, _cut, _cut, _zero, _splice, _repeat, _insert, _noise)
    return rng.choice(ways)(rng, data)


def damage_file(rng: random.Random, path: Path) -> str:
    """Damage a file in place, or delete it; tells what was done."""
    before = path.read_bytes()
    if rng.random() < 0.1:
        path.unlink()
        return f"{path.name} deleted"
    after = damage(rng, before)
    path.write_bytes(after)
    changed = [place for place, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]]
    where = f"first at byte {changed[0]}" if changed else "only in length"
    return f"{path.name} changed, {len(before)} bytes to {len(after)}, {where}"


def damage_json(rng: random.Random, text: str) -> str:
    """Replace, delete or add a value somewhere in a JSON text, which stays JSON."""
    content = json.loads(text)
    holders = list(_holders(content))
    if not holders:
        return json.dumps(rng.choice(ABSURD))
    holder = rng.choice(holders)
    key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("unknown", "", "a" * 300, str(key).upper()))] = rng.choice(ABSURD)
        case _:
            holder[key] = rng.choice(ABSURD)
    return json.dumps(content)


def _holders(content: Any) -> Any:
    if isinstance(content, dict | list):
        if content:
            yield content
        for each in content.values() if isinstance(content, dict) else content:
            yield from _holders(each)


def damage_toml(rng: random.Random, text: str) -> str:
    """Change a line of a TOML text: another value, another key, gone, twice, or torn."""
    lines = text.strip().splitlines()
    place = rng.randrange(len(lines))
    key, equals, _ = lines[place].partition("=")
    match rng.randrange(7):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[place])
        case 2:
            lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
        case 3 if equals:
            lines[place] = f"{key.strip()}x = 1"
        case 4:
            lines.insert(place, "a = " + "[" * rng.choice((3, 2000)) + "]" * 3)
        case _ if equals:
            lines[place] = f"{key}= {_toml(rng.choice(ABSURD))}"
        case _:
            lines[place] = rng.choice(("[stage]", "[[stage]]", "[pair]", "[data]", "[stage.x]", "\u0000", "= 1"))
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, float):
        return {"nan": "nan", "inf": "inf"}.get(str(value), repr(value))
    if isinstance(value, dict):
        return "{ a = 1 }"
    if value is None or isinstance(value, list):
        return '[1, "a"]' if value else "[]"
    return json.dumps(value)


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[_place(rng, len(data))] = rng.choice((0, 255, 32, 127, 128, rng.randrange(256)))
    return bytes(changed)


def _place(rng: random.Random, length: int) -> int:
    """Anywhere, but the ends, where headers and footers lie, more often."""
    edge = min(length, 200)
    return rng.choice((rng.randrange(length), rng.randrange(edge), length - 1 - rng.randrange(edge)))


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.choice((0, rng.randrange(len(data)), len(data) - 1))]


def _zero(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    length = min(rng.choice((16, 512, 4096)), len(data) - start)
    return data[:start] + bytes(length) + data[start + length :]


def _splice(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))] + data[rng.randrange(len(data)) :]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[max(0, start - rng.randrange(1, 2000)) : start] + data[start:]


def _insert(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.choice((1, 4, 100))) + data[start:]


def _noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice((1, 100, min(len(data), 100_000))))
