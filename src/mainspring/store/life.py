"""The life of a store: its capabilities, opening, closing and migrating."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

from ..errors import BadInput
from ..records.finding import Finding
from ..records.schema import Schema

if TYPE_CHECKING:
    from . import Store

Listening = Literal["ok", "failed", "off"]
"""Whether notifications of other processes reach `wait`. "off": this store does not listen."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a store can do beyond the required facets. Known before the store is opened."""

    store: str
    """Its name in messages: "the memory store"."""
    newest_schema: int = 1
    """The newest schema version that this release knows. Workers send it with their beats."""
    transactions: bool = False
    """It is a TransactionalStore, and `enqueue` takes `within`."""
    scripts: bool = False
    """It is a ScriptedStore."""
    no_scripts: str = ""
    """Why it is no ScriptedStore, as a message. It has a default."""
    flows: bool = False
    """It is a FlowStore: jobs may have steps."""
    carries_on: bool = False
    """It is a FlowStore whose `finish` starts jobs for `carry_on`."""
    counts: bool = False
    """It is a CountingStore."""
    limits: bool = False
    """It is a LimitStore: jobs may have a limit_key."""
    in_process: bool = False
    """It works in this process, so it does not work while Python does."""
    remote: bool = False
    """It is the API of another process, which executes the controls."""

    def require_transactions(self, what: str) -> None:
        """Raises BadInput if the store has no transactions. `what` names the feature that needs them."""
        if not self.transactions:
            raise BadInput(f"{self.store} has no transactions for {what}: use sqlite:///… or postgresql://…")

    def require_flows(self) -> None:
        """Raises BadInput if the store has no flows."""
        if not self.flows:
            raise BadInput(f"{self.store} has no flows: use sqlite:///…, postgresql://… or redis://…")

    def require_limits(self) -> None:
        """Raises BadInput if the store has no limits."""
        if not self.limits:
            raise BadInput(f"{self.store} has no limits: use sqlite:///…, postgresql://… or redis://…")

    def require_scripts(self) -> None:
        """Raises BadInput if the migrations of the store cannot be run by hand."""
        if not self.scripts:
            raise BadInput(self.no_scripts or f"{self.store} has no tables, so there are no statements to migrate them")


class StoreLife(Protocol):
    """Opening, closing and migrating a store.

    O1. Opening twice is no error.
    O2. Closing twice is no error.
    O3. Everything accepted is safe when `close` returns; later calls of other verbs raise ShuttingDown until it is
        opened again.
    O4. A fresh store gets the newest schema and no records when it is opened, also if it was opened without `migrate`
        before.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def listening(self) -> Listening:
        """Whether notifications of other processes reach `wait`, so that frequent polling is not needed."""
        ...

    async def open(self, *, migrate: bool = True) -> None:
        """Connects, and migrates the schema to one that this release can work with.

        Without `migrate` the schema is left as it is, and only the methods of this facet are sure to work.
        """

    async def close(self) -> None: ...

    def clone(self) -> Store:
        """CL1. A handle for another event loop that reads and writes the same data. It may be this object."""
        ...

    async def schema(self) -> Schema:
        """The schema of the tables as they are now."""
        ...

    async def migrate(self, target: int | None = None) -> list[int]:
        """Migrates the schema to the version `target` (default: the newest). Returns the versions passed through.

        M1. All or nothing, and one caller at a time.
        M2. StoreUnavailable is raised while a live worker could not work with the tables afterwards.
        M3. A worker whose schema was changed anyway gets SchemaMismatch from its next beat.
        M4. A migration to the present version changes nothing and returns [].
        """
        ...

    async def diagnose(self) -> list[Finding]:
        """DI1. Findings about the condition of this store, one for each subject. A finding that is not "ok" has a
        remedy.

        Changes nothing.
        """
        ...
