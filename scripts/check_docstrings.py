"""Fails when a part of the package does not say plainly what it is.

Every module, public class and public function has a docstring, and so has every public method of a
class that the package exports or that is a port. No docstring opens with a question word, and every
public class has a name of its own.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function

# "What a tool returns." names a thing without saying anything of it: "Returns…", "The result of…" do.
QUESTION = re.compile(r"(What|Where|Who|Whose|Whether|How|Which)\b")
# A property is named after what it holds, and an overload or an override is described where it is declared.
SELF_EXPLAINING = re.compile(r"(^|\.)(property|cached_property|overload|override|setter|deleter)$")


@dataclass
class Findings:
    """The violations of one reading, and the counts that show how much was read."""

    violations: list[str] = field(default_factory=list[str])
    docstrings: int = 0
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))

    def check(self, path: str, node: Documented, name: str, *, needs_docstring: bool) -> None:
        docstring = ast.get_docstring(node)
        place = f"{path}:{getattr(node, 'lineno', 1)}: {name}"
        if docstring is None:
            if needs_docstring:
                self.violations.append(f"{place} has no docstring")
            return
        self.check_words(place, docstring)

    def check_words(self, place: str, docstring: str) -> None:
        self.docstrings += 1
        if question := QUESTION.match(docstring):
            self.violations.append(f"{place}: the docstring opens with “{question.group()}”")


def main(source: Path = SOURCE) -> int:
    """Prints every violation below a folder, and returns the exit code."""
    modules = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    if not modules:
        sys.stderr.write(f"No Python modules found in {source}: nothing was checked.\n")
        return 1
    found = read({path.relative_to(source.parent).as_posix(): text for path, text in modules.items()})
    for violation in found.violations:
        sys.stderr.write(f"{violation}\n")
    if found.violations:
        sys.stderr.write(
            f"{len(found.violations)} to mend. Say in one plain sentence what a thing is or does "
            "(“Returns…”, “Holds…”, “True if…”), and give every public class a name of its own.\n"
        )
        return 1
    sys.stdout.write(
        f"{found.docstrings} docstrings in {len(modules)} modules, {len(found.classes)} public classes.\n"
    )
    return 0


def read(modules: dict[str, str]) -> Findings:
    """Checks the texts of modules, named by their paths."""
    found = Findings()
    trees = {path: ast.parse(text) for path, text in modules.items()}
    exported = {
        name
        for path, tree in trees.items()
        if path.endswith("/spindle/__init__.py")
        for name in imported(tree)
    }
    for path, tree in trees.items():
        found.check(path, tree, "the module", needs_docstring=True)
        for line, name, docstring in attributes(tree):
            found.check_words(f"{path}:{line}: {name}", docstring)
        is_port = "/ports/" in path
        for node, owners in definitions(tree):
            name = ".".join([*(owner.name for owner in owners), node.name])
            public = not any(part.startswith("_") for part in name.split("."))
            inside_function = any(not isinstance(owner, ast.ClassDef) for owner in owners)
            if isinstance(node, ast.ClassDef):
                needed = public and not inside_function
                # In compat/ the names are those of other systems.
                if needed and "/compat/" not in path:
                    found.classes[node.name].append(f"{path}:{node.lineno}")
            elif not owners:
                needed = public and not explains_itself(node)
            else:
                offered = is_port or owners[0].name in exported
                needed = public and not inside_function and offered and not explains_itself(node)
            found.check(path, node, name, needs_docstring=needed)
    found.violations.extend(
        f"{places[0]}: the class name {name} is used again in {', '.join(places[1:])}"
        for name, places in found.classes.items()
        if len(places) > 1
    )
    return found


def definitions(
    node: ast.AST, owners: tuple[ast.ClassDef | Function, ...] = ()
) -> Iterator[tuple[ast.ClassDef | Function, tuple[ast.ClassDef | Function, ...]]]:
    """Yields every class and function below a node, with the classes and functions around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child, owners
            yield from definitions(child, (*owners, child))
        else:
            yield from definitions(child, owners)


def attributes(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yields the line, the name and the text of every docstring below an assignment."""
    for node in ast.walk(tree):
        body: object = getattr(node, "body", None)
        for assigned, docstring in pairwise(body) if isinstance(body, list) else ():
            if isinstance(assigned, ast.Assign | ast.AnnAssign) and isinstance(docstring, ast.Expr):
                target = assigned.targets[0] if isinstance(assigned, ast.Assign) else assigned.target
                if isinstance(docstring.value, ast.Constant) and isinstance(docstring.value.value, str):
                    yield docstring.lineno, ast.unparse(target), docstring.value.value


def explains_itself(function: Function) -> bool:
    """True for a property, and for an overload or override of a function that has a docstring."""
    return any(SELF_EXPLAINING.search(ast.unparse(decorator)) for decorator in function.decorator_list)


def imported(package: ast.Module) -> Iterable[str]:
    """The names that the package imports for its users, at once or when first used."""
    for node in ast.walk(package):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


if __name__ == "__main__":
    sys.exit(main())
