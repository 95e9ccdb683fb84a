"""A worker process: it claims jobs, runs them, records their ends, fires schedules, and sends heartbeats."""
