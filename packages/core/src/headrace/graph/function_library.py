"""FunctionLibrary: the named functions of a graph, which its operations call by name.

All graphs that belong together share one library: the user's graph, the bodies of its functions, and what passes make
of them. A function that a graph file brought is read when an operation asks for it, so that one which nobody needs can
be kept and written out again whatever it holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.errors import GraphError, HeadraceError, NotFoundError, UnimplementedError, known_names

if TYPE_CHECKING:
    from headrace.graph.functions import Body

__all__ = ["FunctionLibrary", "register_derivation"]

_derivations: dict[str, Callable[[Body, str], Body]] = {}


def register_derivation(kind: str) -> Callable[[Callable[[Body, str], Body]], Callable[[Body, str], Body]]:
    """Register the decorated function, which makes of a function another one of a given name.

    Args:
      kind: what `FunctionLibrary.derive` calls it.
    """

    def decorate(function: Callable[[Body, str], Body]) -> Callable[[Body, str], Body]:
        _derivations[kind] = function
        return function

    return decorate


class FunctionLibrary:
    """Functions by name. Mutable, append-only and thread-safe.

    Args:
      parent: a library whose functions are in this one too, but not the other way round: passes add functions for one
        plan.
    Attributes:
      stored: the functions that came with a graph file, each as the bytes of its `FunctionDef`.
      gradients: what graph files said about gradients of functions, as the bytes of a `FunctionDefLibrary`.
    """

    def __init__(self, parent: FunctionLibrary | None = None) -> None:
        self._parent = parent
        self.stored: dict[str, bytes] = {}
        self.gradients = b""
        self._bodies: dict[str, Body] = {}
        self._readers: dict[str, Callable[[], Body]] = {}
        self._reserved: set[str] = set()
        self._reading: list[str] = []
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[str]:
        """The names in the order in which the functions were added; a snapshot."""
        with self._lock:
            return iter([*dict.fromkeys((*(self._parent or ()), *self._readers, *self._bodies))])

    def __contains__(self, name: object) -> bool:
        return name in self._bodies or name in self._readers or (self._parent is not None and name in self._parent)

    def __bool__(self) -> bool:
        return bool(self._bodies or self.stored or self.gradients or self._parent)

    def __getitem__(self, name: str) -> Body:
        """The body of a function, read from the graph file that brought it if that was not done yet.

        Raises:
          NotFoundError: there is no function of that name.
          UnimplementedError: the function leads back to itself.
          HeadraceError: the stored function breaks a rule of one of its operations.
        """
        found = self._bodies.get(name)
        if found is not None:
            return found
        if self._parent is not None and name in self._parent:
            return self._parent[name]
        with self._lock:
            if name not in self._readers:
                raise NotFoundError(
                    f"the graph has no function '{name}'",
                    expected=known_names(name, self),
                    got=name,
                    hint="export the graph together with its function library",
                )
            if name not in self._bodies:
                self._bodies[name] = self._read(name)
            return self._bodies[name]

    def _read(self, name: str) -> Body:
        if name in self._reading:
            raise UnimplementedError(
                f"function '{name}' calls itself",
                expected="functions that do not lead back to themselves",
                got=" -> ".join((*self._reading, name)),
                hint="write the recursion as a loop",
            )
        self._reading.append(name)
        try:
            return self._readers[name]()
        except RecursionError:
            if len(self._reading) > 1:
                raise
            raise UnimplementedError(
                f"the functions that '{name}' calls go too deep",
                expected="functions that call each other through some tens of levels at most",
                got="more of them than Python's stack holds",
                hint="sys.setrecursionlimit(10_000) before the step, or inline the functions before writing the graph",
            ) from None  # the chain has a thousand frames, all of them alike
        finally:
            self._reading.pop()

    def unique_name(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, ... if it is taken; the result is reserved."""
        with self._lock:
            unique, count = name, 0
            while unique in self or unique in self._reserved:
                count += 1
                unique = f"{name}_{count}"
            self._reserved.add(unique)
            return unique

    def add(self, body: Body) -> None:
        """Add a function under the name of its body.

        Raises:
          GraphError: the name is taken.
        """
        with self._lock:
            if body.name in self:
                raise self.conflict(body.name)
            self._bodies[body.name] = body

    def add_stored(self, name: str, serialized: bytes, read: Callable[[], Body]) -> None:
        """Add a function of a graph file.

        Args:
          name: its name.
          serialized: the bytes of its `FunctionDef`.
          read: makes the body from them; called when it is needed first.
        """
        with self._lock:
            self.stored[name] = serialized
            self._readers[name] = read

    def derive(self, kind: str, name: str) -> str:
        """The name of a function that is derived from another one, such as its gradient, when it is needed first.

        Args:
          kind: how, as `register_derivation` names it.
          name: the other function.
        """
        derived = f"{name}_{kind}"

        def make() -> Body:
            del self._readers[derived]  # its body adds itself
            try:
                return _derivations[kind](self[name], derived)
            except HeadraceError:
                self._readers[derived] = make
                raise

        with self._lock:
            if derived not in self:
                self._readers[derived] = make
        return derived

    def conflict(self, name: str) -> GraphError:
        """The error that says that a name is taken."""
        return GraphError(
            f"two functions are named '{name}'",
            expected="unique names",
            got="two different definitions",
            hint="import into a graph of its own, or rename one of the functions",
        )

    def mark(self) -> Callable[[], None]:
        """A function that takes back everything that is added from now on."""
        with self._lock:
            stored, gradients, bodies = dict(self.stored), self.gradients, dict(self._bodies)
            readers, reserved = dict(self._readers), set(self._reserved)

        def restore() -> None:
            with self._lock:
                self.stored, self.gradients, self._bodies = stored, gradients, bodies
                self._readers, self._reserved = readers, reserved

        return restore

    def __repr__(self) -> str:
        return f"<library of {len(list(self))} functions>"
