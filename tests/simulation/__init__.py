"""A seeded simulation: a cluster of workers on one virtual clock, with faults, and an auditor of its promises."""

from .bugs import BUGS
from .simulation import Verdict, play, simulate

__all__ = ["BUGS", "Verdict", "play", "simulate"]
