"""Imports run in one direction, also those inside functions: between folders and within them."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "aib").rglob("*.py")
}


def imported(path):
    """The package's modules that a file imports; not for types only, as `aib/__init__.py` does."""
    tree = ast.parse(path.read_text())
    tree.body = [n for n in tree.body if not ast.unparse(n).startswith("if TYPE_CHECKING:")]
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            name = name if name in MODULES else name.rpartition(".")[0]
            if name in MODULES:
                yield name


def test_imports_have_no_cycle_and_only_the_command_line_imports_commands():
    modules, folders = defaultdict(set), defaultdict(set)
    for module, path in MODULES.items():
        for other in imported(path):
            modules[module] |= {other} - {module}
            folder, imports = (".".join(name.split(".")[:2]) for name in (module, other))
            folders[folder] |= {imports} - {folder}
    for graph in (modules, folders):
        TopologicalSorter(graph).prepare()  # a CycleError names the cycle
    assert [name for name, others in folders.items() if "aib.commands" in others] == ["aib.cli"]
