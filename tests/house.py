"""The rules of the house, checked on the source: who may import whom, and what may stand where.

Reads a checkout and returns sentences, one per breach; `test_imports.py` wants none for this one, and plants breaches
in another to see that each is found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_WORDS = ("duplex.errors", "duplex.session.fence", "duplex.connector.payload")

RUNNERS = (
    "duplex.session.attachment",
    "duplex.session.holdings",
    "duplex.session.host",
    "duplex.session.lobby",
    "duplex.session.mailbox",
    "duplex.session.outbox",
    "duplex.session.requests",
    "duplex.session.runner",
    "duplex.session.visit",
)
"""The session's impure files: they run its machines, open sessions, hold what waits for them, and keep its books."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "duplex": (),
    "duplex.errors": (),
    "duplex.session.fence": (),
    "duplex.connector.payload": ("duplex.connector.kind", "duplex.connector.tensor"),
    "duplex.connector.kind": (),
    "duplex.connector.tensor": ("duplex.connector.kind",),
    "duplex.protocol": ("duplex.protocol",),
    "duplex.settings": ("duplex.errors",),
    "duplex.config": ("duplex.errors", "duplex.settings"),
    "duplex.audio": ("duplex.audio",),
    "duplex.connector": (*_WORDS, "duplex.connector"),
    "duplex.engine.base": (*_WORDS, "duplex.connector.base"),
    "duplex.state": (*_WORDS, "duplex.state"),
    "duplex.engine": (*_WORDS, "duplex.connector", "duplex.engine", "duplex.state"),
    "duplex.session": (*_WORDS, "duplex.connector.base", "duplex.engine.base", "duplex.session"),
    **dict.fromkeys(
        RUNNERS,
        (
            *_WORDS,
            "duplex.connector.base",
            "duplex.engine.base",
            "duplex.orchestrator",
            "duplex.session",
            "duplex.state",
        ),
    ),
    "duplex.orchestrator": (*_WORDS, "duplex.connector.base", "duplex.engine.base", "duplex.orchestrator"),
    "duplex.models": (
        *_WORDS,
        "duplex.audio",
        "duplex.connector",
        "duplex.engine",
        "duplex.heap",
        "duplex.models",
        "duplex.orchestrator.graph",
        "duplex.orchestrator.graphfile",
        "duplex.state",
    ),
    "duplex.transport": (
        *_WORDS,
        "duplex.audio",
        "duplex.protocol",
        "duplex.session.events",
        "duplex.session.item",
        "duplex.session.notices",
        "duplex.session.port",
        "duplex.session.settings",
        "duplex.transport",
    ),
    "duplex.capacity": (
        "duplex.config",
        "duplex.engine.base",
        "duplex.orchestrator.graph",
        "duplex.session.budget",
        "duplex.session.holdings",
        "duplex.session.price",
    ),
    "duplex.census": (
        "duplex.session.admission",
        "duplex.session.lobby",
        "duplex.session.places",
        "duplex.session.price",
        "duplex.state.ref",
    ),
    "duplex.inspection": ("duplex.state",),
    "duplex.heap": (),
    **dict.fromkeys(
        ("duplex.waterfall", "duplex.metrics", "duplex.spans"),
        ("duplex.orchestrator.trace", "duplex.session.turnlog"),
    ),
    "duplex.warmup": (
        "duplex.audio",
        "duplex.errors",
        "duplex.session.events",
        "duplex.session.item",
        "duplex.session.notices",
        "duplex.session.port",
        "duplex.session.settings",
    ),
    "duplex.client": ("duplex.errors", "duplex.audio", "duplex.client", "duplex.protocol"),
    "duplex.placing": (
        *_WORDS,
        "duplex.connector",
        "duplex.engine",
        "duplex.models",
        "duplex.orchestrator",
        "duplex.state",
    ),
    "duplex.server": ("duplex",),
    "duplex.cli": ("duplex.client", "duplex.config", "duplex.errors", "duplex.models", "duplex.server"),
    "duplex.__main__": ("duplex.cli",),
    **dict.fromkeys(
        ("latency_bench", "latency_bench.wire"),
        ("duplex.errors", "duplex.audio", "duplex.client", "duplex.protocol", "latency_bench"),
    ),
    "latency_bench.micro": ("duplex", "latency_bench"),
}
"""What a module may import of ours, by its longest prefix here; a module under no prefix is a breach itself."""

DENIED: dict[str, tuple[str, ...]] = {
    "duplex.session": RUNNERS,
    "latency_bench.wire": ("latency_bench.micro",),
}
"""Exceptions to the table above, by the same prefix."""

PURE = (
    "duplex.session",
    "duplex.state",
    "duplex.orchestrator.core",
    "duplex.orchestrator.fleet",
    "duplex.orchestrator.graph",
    "duplex.orchestrator.pool",
    "duplex.orchestrator.pooling",
    "duplex.orchestrator.replica",
    "duplex.orchestrator.request",
    "duplex.orchestrator.rules",
    "duplex.orchestrator.spec",
)
_CLOCKS_AND_SOCKETS = frozenset(
    {"anyio", "asyncio", "concurrent", "datetime", "multiprocessing", "os", "queue", "select", "selectors", "signal"}
    | {"socket", "subprocess", "threading", "time", "uvloop"}
)

BOUNDARIES = frozenset(
    {
        "duplex.engine.completion",
        "duplex.engine.pool",
        "duplex.engine.pooled",
        "duplex.models.registry",
        "duplex.orchestrator.replicas",
    }
    | {"duplex.session.host", "duplex.session.lobby", "duplex.session.runner"}
)
"""Where a failure of someone else's code ends: only these may catch everything and go on."""

_BROAD = frozenset({"Exception", "BaseException"})
_MODEL_NAMES = re.compile(r"silero|smart[_ -]?turn|moonshine|smollm|hibari|piper|whisper|qwen", re.IGNORECASE)
_MAY_NAME_MODELS = ("duplex.models", "latency_bench.clips", "latency_bench.micro.models")

Modules = dict[str, Path]


def modules_of(root: Path) -> Modules:
    """The checkout's own modules by dotted name."""
    modules: Modules = {}
    for package in ("duplex", "latency_bench"):
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def breaches(root: Path) -> list[str]:
    """Every breach of the rules in the checkout at `root`."""
    modules = modules_of(root)
    found: list[str] = []
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, filename=str(path))
        imports = list(_imports(tree, name, modules))
        graph[name] = {target for target, _ in imports if target in modules} - {name}
        found += [f"{name}:{line}: {what}" for line, what in sorted(_breaches_of(name, source, tree, imports))]
    return found + [f"circle: {' -> '.join(circle)}" for circle in _circles(graph)]


def _breaches_of(name: str, source: str, tree: ast.AST, imports: list[tuple[str, int]]) -> Iterator[tuple[int, str]]:
    rule = max((prefix for prefix in ALLOWED if _under(name, prefix)), key=len, default="")
    if not rule or (rule == "duplex" and name != "duplex"):
        yield 1, "no rule says what this module may import: add it to ALLOWED"
    for target, line in imports:
        ours = target.split(".")[0] in ("duplex", "latency_bench")
        allowed = any(_under(target, prefix) for prefix in ALLOWED.get(rule, ()))
        denied = any(_under(target, prefix) for prefix in DENIED.get(rule, ()))
        if ours and target != "duplex" and (denied or not allowed):
            yield line, f"imports {target}"
        if _is_pure(name) and target.split(".")[0] in _CLOCKS_AND_SOCKETS:
            yield line, f"is pure, and imports {target}"
    if not any(_under(name, prefix) for prefix in _MAY_NAME_MODELS):
        for number, text in enumerate(source.splitlines(), start=1):
            if named := _MODEL_NAMES.search(text):
                yield number, f"names a model, {named[0]}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _swallows_all(node) and name not in BOUNDARIES:
            yield node.lineno, "catches everything and goes on"
        elif isinstance(node, ast.Call) and _is_stray_task(node.func):
            yield node.lineno, "starts a task that no TaskGroup owns"
        elif _under(name, "duplex") and name != "duplex.config" and _reads_environment(node):
            yield getattr(node, "lineno", 0), "reads the environment"


def _imports(tree: ast.AST, name: str, modules: Modules) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                # A module's own package is one level up; a package's __init__ is its own package.
                is_package = modules[name].name == "__init__.py"
                above = name.split(".")[: len(name.split(".")) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in modules else base), node.lineno


def _is_pure(name: str) -> bool:
    return any(_under(name, prefix) for prefix in PURE) and not any(_under(name, prefix) for prefix in RUNNERS)


def _under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _swallows_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = any(kind is None or (isinstance(kind, ast.Name) and kind.id in _BROAD) for kind in kinds)
    last = handler.body[-1]
    return broad and not (isinstance(last, ast.Raise) and last.exc is None)


def _is_stray_task(called: ast.expr) -> bool:
    """`create_task` of anything but a TaskGroup held in a variable: of asyncio, of a loop, or imported by name."""
    if isinstance(called, ast.Name):
        return called.id in ("create_task", "ensure_future")
    if not isinstance(called, ast.Attribute) or called.attr not in ("create_task", "ensure_future"):
        return False
    owner = ast.unparse(called.value)
    return called.attr == "ensure_future" or owner == "asyncio" or "loop" in owner


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in ("environ", "getenv") for alias in node.names)
    return isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv", "os.environb")


def _circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """One circle per knot: modules are taken away while they import nothing that is left; what stays is knotted."""
    left = {name: set(targets) for name, targets in graph.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    while left:
        walk = [min(left)]
        while walk[-1] not in walk[:-1]:
            walk.append(min(left[walk[-1]] & left.keys()))
        circle = walk[walk.index(walk[-1]) :]
        yield circle
        for name in circle[:-1]:
            left.pop(name, None)
        while free := [name for name, targets in left.items() if not targets & left.keys()]:
            for name in free:
                del left[name]
