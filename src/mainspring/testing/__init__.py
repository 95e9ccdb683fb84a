"""The testing kit: a virtual clock, a harness, a recorder, faults on purpose; and the contract for stores."""

from .clock import VirtualClock
from .faults import Fault, Faults, FaultStore
from .harness import Harness
from .recorder import Recorder

__all__ = ["Fault", "FaultStore", "Faults", "Harness", "Recorder", "VirtualClock"]
