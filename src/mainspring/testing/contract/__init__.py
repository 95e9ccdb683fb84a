"""The contract of a store as tests: subclass StoreContract, say how to make a store, run pytest."""

from __future__ import annotations

from .beat import BeatContract
from .change import ChangeContract
from .claim import ClaimContract
from .enqueue import EnqueueContract
from .finish import FinishContract
from .keys import KeysContract
from .life import LifeContract
from .read import ReadContract

__all__ = ["StoreContract"]


class StoreContract(
    LifeContract,
    EnqueueContract,
    KeysContract,
    ClaimContract,
    BeatContract,
    FinishContract,
    ChangeContract,
    ReadContract,
):
    """Every sentence of the Store protocol; needs the plugin mainspring.testing.plugin."""
