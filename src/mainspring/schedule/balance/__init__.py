"""How ticks are distributed over time, and how schedules are moved to even out the load."""
