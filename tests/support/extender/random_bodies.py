"""Random request bodies: changed copies of bodies that kube-scheduler sends."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from support.builders.objects import pod

UNKNOWN_NODE = "never-seen"
_EDGES = [
    '[{"from":0,"to":1,"weight":3}]',
    '[{"from":0,"to":1,"weight":1e999}]',
    '[{"from":-1,"to":"1"}]',
    "[" * 500,
    '{"from":',
    "",
]
_TEXTS = [
    "",
    "n1",
    UNKNOWN_NODE,
    "\x00",
    "\u202e\u200b",
    "\U0001f4a5" * 50,
    "a" * 5000,
    "\n\r\t",
    "../../etc/passwd",
    "%00%0a",
    "default/a",
    "\ud800",
    "gputopo.io/gpu",
    "9" * 400,
    "1e3",
    "-2",
    "NaN",
]
_JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    2**63,
    10**400,
    -(10**30),
    0.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
    [],
    {},
    [None],
    [[[]]],
    {"": None},
    {"metadata": None},
    {"items": [None]},
    {"items": {}},
]


def valid_bodies() -> list[tuple[str, dict[str, Any]]]:
    """Return a body for each verb and mode, for a pod ``a`` and nodes ``n1``, ``n2`` and others."""
    custom = {"gputopo.io/pattern": "Custom", "gputopo.io/edges": _EDGES[0]}
    pods = [pod("a", 2), pod("a", 3, annotations=custom)]
    names = ["n1", "n2", UNKNOWN_NODE]
    items = [{"metadata": {"name": name}} for name in names]
    meta = {"n1": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 0}, UNKNOWN_NODE: {"Pods": []}}
    whole = {"n1": {"Pods": [pod("a", 2)], "NumPDBViolations": 1}}
    found: list[tuple[str, dict[str, Any]]] = [
        ("bind", {"PodName": "a", "PodNamespace": "default", "PodUID": "uid-a", "Node": "n1"})
    ]
    for each in pods:
        for verb in ("filter", "prioritize"):
            found.append((verb, {"Pod": each, "Nodes": None, "NodeNames": names}))
            found.append((verb, {"Pod": each, "Nodes": {"items": items}, "NodeNames": None}))
        found.append(("preempt", {"Pod": each, "NodeNameToMetaVictims": meta}))
        found.append(("preempt", {"Pod": each, "NodeNameToVictims": whole}))
    return found


def bodies(seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield verbs with bodies without end; a seed always yields the same ones."""
    chance = random.Random(seed)  # noqa: S311 - a fuzzer must be repeatable, not secret
    known = valid_bodies()
    while True:
        verb, body = chance.choice(known)
        tree: Any = copy.deepcopy(body)
        for _ in range(chance.choice([1, 1, 2, 3, 8])):
            tree = _changed(tree, chance)
        if chance.random() < 0.02:
            tree = _nested(chance)
        # Lone surrogates are written as escapes, which JSON allows.
        text = json.dumps(tree).encode()
        yield verb, _torn(text, chance) if chance.random() < 0.15 else text


def _changed(tree: Any, chance: random.Random) -> Any:
    """Replace, rename, remove or add a random value of the document."""
    places = list(_places(tree)) if isinstance(tree, dict | list) else []
    if not places or chance.random() < 0.02:
        return _junk(chance)
    parent, key = chance.choice(places)
    what = chance.random()
    if what < 0.5:
        parent[key] = _junk(chance)
    elif what < 0.65:
        del parent[key]
    elif isinstance(parent, dict):
        _rename(parent, key, chance)
    else:
        parent.extend([parent[key]] * chance.choice([1, 2, 1000]))
    return tree


def _rename(parent: dict[str, Any], key: str, chance: random.Random) -> None:
    value = parent.pop(key)
    name = chance.choice([key.lower(), key.upper(), key[:1].lower() + key[1:], _text(chance)])
    parent[name] = value
    if chance.random() < 0.3:
        parent[key] = _junk(chance)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(inner):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _junk(chance: random.Random) -> Any:
    kind = chance.random()
    if kind < 0.4:
        return _text(chance)
    if kind < 0.45:
        return chance.choice(_EDGES)
    return copy.deepcopy(chance.choice(_JUNK))


def _text(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(8)))
    return chance.choice(_TEXTS)


def _nested(chance: random.Random) -> Any:
    tree: Any = None
    for _ in range(chance.choice([50, 300, 900])):
        tree = [tree] if chance.random() < 0.5 else {"Pod": tree}
    return tree


def _torn(text: bytes, chance: random.Random) -> bytes:
    """Change the bytes: cut, flip, insert, or remove all."""
    position = chance.randrange(len(text) + 1)
    return chance.choice(
        [
            text[:position],
            text[:position] + bytes([chance.randrange(256)]) + text[position + 1 :],
            text[:position] + chance.randbytes(4) + text[position:],
            chance.randbytes(chance.randrange(64)),
            text + text,
            b"\xef\xbb\xbf" + text,
            text.decode().encode("utf-16"),
        ]
    )
