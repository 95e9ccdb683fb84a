"""The contract of a store as tests: subclass StoreContract, say how to make a store, run pytest."""

from __future__ import annotations

from .beat import BeatContract
from .brief import BriefContract
from .change import ChangeContract
from .circuit import CircuitContract
from .claim import ClaimContract
from .depth import DepthContract
from .enqueue import EnqueueContract
from .execution import ExecutionContract
from .finish import FinishContract
from .fire import FireContract
from .keeper import AuditContract, DocumentContract, NewsContract
from .keys import KeysContract
from .leader import LeaderContract
from .life import LifeContract
from .lists import ListsContract
from .order import OrderContract
from .probe import ProbeContract
from .prune import PruneContract
from .read import ReadContract
from .report import ReportContract
from .schedule import ScheduleContract
from .sequel import SequelContract
from .series import SeriesContract
from .tally import TallyContract
from .update import UpdateContract
from .version import VersionContract

__all__ = ["StoreContract"]


class StoreContract(
    LifeContract,
    EnqueueContract,
    KeysContract,
    ClaimContract,
    ProbeContract,
    BeatContract,
    OrderContract,
    FinishContract,
    ExecutionContract,
    SequelContract,
    CircuitContract,
    TallyContract,
    ReportContract,
    ChangeContract,
    UpdateContract,
    ReadContract,
    ListsContract,
    BriefContract,
    PruneContract,
    ScheduleContract,
    FireContract,
    SeriesContract,
    LeaderContract,
    DocumentContract,
    AuditContract,
    NewsContract,
    DepthContract,
    VersionContract,
):
    """Every sentence of the Store protocol; needs the plugin mainspring.testing.plugin."""
