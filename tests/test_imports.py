"""Imports go downwards, also those inside functions. Run as a script, it prints the levels."""

import ast
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "aib").rglob("*.py"))
}
ORDER = [  # a folder imports only those above it, and itself
    {"errors", "version"},
    {"system"},
    {"config"},
    {"figures"},
    {"data"},
    {"models"},
    {"evaluation"},
    {"runs"},
    {"training"},
    {"interpret"},
    {"export", "report", "viewer", "sweep"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
RANK = {folder: rank for rank, folders in enumerate(ORDER) for folder in folders}
MAX_LEVELS = 13


@cache
def statements(module: str) -> list[tuple[str, str, str]]:
    """The imports (module, name, name here) of a module, also those for types only."""
    tree = ast.parse(MODULES[module].read_text())
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, "", alias.asname or alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(str(node.module), one.name, one.asname or one.name) for one in node.names]
    return found


def definer(module: str, name: str) -> str | None:
    """The module of the package that defines this name: what its `__init__` re-exports."""
    if module not in MODULES:
        return None
    if MODULES[module].name == "__init__.py" and name:
        for origin, original, here in statements(module):
            if here == name:
                return definer(origin, original)
        if f"{module}.{name}" in MODULES:
            return f"{module}.{name}"
    return module


def imports() -> dict[str, set[str]]:
    """Every module with those of the package that it imports."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        others = {definer(origin, name) for origin, name, _ in statements(module)}
        found[module] = {other for other in others if other is not None} - {module}
    return found


def folder(module: str) -> str:
    """The folder, or the module, in the root: "models" of "aib.models.loss"."""
    return [*module.split("."), "__init__"][1]


def inner(module: str) -> str:
    """The folder inside a folder, such as "models.networks"; "" for modules outside of one."""
    parts = module.split(".")
    is_package = MODULES[module].name == "__init__.py"
    return ".".join(parts[1:3]) if len(parts) > 3 or (is_package and len(parts) == 3) else ""


def levels() -> dict[str, int]:
    """level(module) = 1 + the highest level of what it imports."""
    graph, found = imports(), {}
    for module in TopologicalSorter(graph).static_order():
        found[module] = 1 + max((found[other] for other in graph[module]), default=0)
    return found


def test_there_is_no_cycle_between_modules_or_folders():
    graph, folders = imports(), defaultdict(set)
    TopologicalSorter(graph).prepare()  # a CycleError names the cycle
    for module, others in graph.items():
        for other in others:
            for ours, theirs in ((folder(module), folder(other)), (inner(module), inner(other))):
                if ours != theirs and ours and theirs:
                    folders[ours].add(theirs)
    TopologicalSorter(folders).prepare()


def test_imports_go_downwards():
    upwards = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if folder(module) != folder(other) and other != "aib" and module != "aib"
        if RANK[folder(other)] >= RANK[folder(module)]
    ]
    assert upwards == []


def test_the_root_holds_only_the_door():
    assert len(list((ROOT / "aib").glob("*.py"))) <= 6
    assert {folder(module) for module in MODULES} - {"__init__"} <= set(RANK)


def test_there_are_few_levels_of_imports():
    found = levels()
    del found["aib"]  # the door names everything, and imports it on demand
    assert max(found.values()) <= MAX_LEVELS, describe_levels()


def describe_levels() -> str:
    """The modules of each level, and one of the longest chains."""
    found, graph = levels(), imports()
    rows = defaultdict(list)
    for module, level in found.items():
        rows[level].append(module.removeprefix("aib."))
    chain = [max(found, key=lambda module: found[module])]
    while graph[chain[-1]]:
        chain.append(max(graph[chain[-1]], key=lambda module: found[module]))
    lines = [f"{level:3} {' '.join(sorted(names))}" for level, names in sorted(rows.items())]
    return "\n".join([*lines, " > ".join(one.removeprefix("aib.") for one in chain)])


if __name__ == "__main__":
    print(describe_levels())
