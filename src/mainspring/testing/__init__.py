"""The testing kit: a virtual clock, a recorder of events, faults on purpose; and the contract for stores."""

from .clock import VirtualClock
from .faults import Fault, Faults, FaultStore
from .recorder import Recorder

__all__ = ["Fault", "FaultStore", "Faults", "Recorder", "VirtualClock"]
