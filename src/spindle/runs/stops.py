"""The places of a run at which it waits for a person, and what must not begin because of that.

What follows an answer must wait for it, so once something is asked no new step begins. Branches run beside
each other, and none follows another: a question in one stops what is in it, and the others go on.
"""

from __future__ import annotations

from spindle.errors import Interruption

Branches = tuple[str, ...]
"""The places of the branches around a place, the outermost first."""


def below(path: str) -> tuple[str, str]:
    """Returns the beginnings of the steps and questions at a place."""
    return f"{path}/", f"{path}?"


class Stops:
    """The questions of one execution of a run, and the steps that were not begun because of them."""

    def __init__(self) -> None:
        self._places: list[tuple[str, Interruption]] = []
        self._first: dict[str, Interruption] = {}
        """By innermost branch, the first question in it; under an empty path, the one outside of all."""

    def add(self, path: str, question: Interruption, branches: Branches) -> None:
        """Notes that this is asked at a place."""
        self._places.append((path, question))
        self._first.setdefault(branches[-1] if branches else "", question)

    def whole(self, why: Interruption) -> None:
        """Stops all of the run."""
        self._first.setdefault("", why)

    def reason(self, branches: Branches) -> Interruption | None:
        """Returns the question because of which nothing new begins in these branches."""
        if not self._first:
            return None
        return next((self._first[at] for at in ("", *branches) if at in self._first), None)

    def refuse(self, path: str, branches: Branches) -> None:
        """Raises the question because of which the step at this place must not begin, if there is one."""
        why = self.reason(branches)
        if why is not None:
            self._places.append((path, why))
            raise why

    def inside(self, path: str) -> list[Interruption]:
        """Returns the questions because of which a step at this place has not really ended, whatever it
        returned."""
        if not self._places:
            return []
        inside = below(path)
        return [why for stop, why in self._places if stop.startswith(inside)]

    def forget(self, branch: str) -> None:
        """Forgets what was asked in a branch that nobody needs any more."""
        inside = below(branch)
        self._places = [(path, why) for path, why in self._places if not path.startswith(inside)]
        self._first = {
            at: why for at, why in self._first.items() if at != branch and not at.startswith(inside)
        }
