"""The rooms of smlstm and who imports whom, read out of the code; draws them into CONTRIBUTING.md.

python -m tests.architecture          writes the drawing anew
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "smlstm"
LAYERS = (
    ("cli",),
    ("web",),
    ("search", "reproduce"),
    ("training",),
    ("explain", "evaluation"),
    ("pair",),
    ("scoring", "saving"),
    ("baselines",),
    ("model",),
    ("matching",),
    ("vision", "data"),
    ("text",),
    ("progress_bar", "files", "device", "photo_formats"),
    ("user_folders",),
    ("errors",),
)
"""From above to below: a room imports only from layers below its own."""


@dataclass(frozen=True)
class Import:
    """One file imports from another room."""

    file: Path
    line: int
    target: str
    """The room, or the package if it is not ours."""
    ours: bool
    in_function: bool
    reason: str
    """What stands behind `noqa: PLC0415 -`, here or at the first of the imports that this one follows."""


def room_of(file: Path) -> str:
    """The first folder or file below the package that a file belongs to."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports() -> Iterator[Import]:
    """All that is imported at run time."""
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        lines, tree, reason, before = text.splitlines(), ast.parse(text), "", 0
        for node, in_function in _walk(tree, False):
            if isinstance(node, ast.ImportFrom):
                package = node.module or ""
                names = [f"smlstm.{each.name}" for each in node.names] if package == "smlstm" else [package]
            else:
                names = [each.name for each in node.names]
            own = lines[node.lineno - 1].partition("PLC0415 - ")[2]
            reason, before = own or (reason if node.lineno == before + 1 else ""), node.end_lineno or node.lineno
            for name in names:
                ours = name.startswith("smlstm.")
                target = name.split(".")[1] if ours else name.split(".")[0]
                yield Import(file, node.lineno, target, ours, in_function, reason)


def _walk(node: ast.AST, in_function: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, in_function
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _walk(child, in_function or function)


def arrows() -> set[tuple[str, str]]:
    """Which room imports which."""
    found = {(room_of(each.file), each.target) for each in imports() if each.ours}
    return {(room, target) for room, target in found if room != target and "__" not in room and "__" not in target}


def drawing() -> str:
    """The rooms, layer by layer, and what each imports."""
    found = arrows()
    order = [room for layer in LAYERS for room in layer]
    lines = []
    for layer in LAYERS:
        for room in layer:
            targets = [each for each in order if (room, each) in found and each not in (*LAYERS[-2], *LAYERS[-1])]
            lines.append(f"{room:<14} -> {', '.join(targets)}" if targets else room)
        lines.append("")
    return "\n".join(lines).rstrip()


def contributing() -> str:
    """CONTRIBUTING.md with the drawing as it should be."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- rooms -->\n")
    tail = rest.partition("<!-- /rooms -->\n")[2]
    return f"{head}<!-- rooms -->\n```\n{drawing()}\n```\n<!-- /rooms -->\n{tail}"


if __name__ == "__main__":
    (ROOT / "CONTRIBUTING.md").write_text(contributing(), encoding="utf-8")
