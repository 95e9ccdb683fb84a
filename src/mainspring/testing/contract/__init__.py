"""The contract of a store as tests: subclass StoreContract, define make_store(), and run pytest."""

from __future__ import annotations

from .audit import AuditContract
from .beat import BeatContract
from .brief import BriefContract
from .change import ChangeContract
from .circuit import CircuitContract
from .claim import ClaimContract
from .claim_expiry import ClaimExpiryContract
from .collect import CollectContract
from .documents import DocumentContract
from .enqueue import EnqueueContract
from .execution import ExecutionContract
from .feed import FeedContract
from .finish import FinishContract
from .fire import FireContract
from .follow_up import FollowUpContract
from .keys import KeysContract
from .leader import LeaderContract
from .lifecycle import LifecycleContract
from .lists import ListsContract
from .probe import ProbeContract
from .prune import PruneContract
from .queue_depth import QueueDepthContract
from .read import ReadContract
from .report import ReportContract
from .schedule import ScheduleContract
from .schedule_runs import ScheduleRunsContract
from .tally import TallyContract
from .update import UpdateContract
from .version import VersionContract
from .wait import WaitContract
from .worker_commands import WorkerCommandsContract

__all__ = ["StoreContract"]


class StoreContract(
    LifecycleContract,
    WaitContract,
    EnqueueContract,
    KeysContract,
    CollectContract,
    ClaimContract,
    ClaimExpiryContract,
    ProbeContract,
    BeatContract,
    WorkerCommandsContract,
    FinishContract,
    ExecutionContract,
    FollowUpContract,
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
    ScheduleRunsContract,
    LeaderContract,
    DocumentContract,
    AuditContract,
    FeedContract,
    QueueDepthContract,
    VersionContract,
):
    """All tests of the Store protocol. They need the plugin mainspring.testing.plugin."""
