"""Records that are stored and returned: jobs, runs, workers, documents. Plain data, no I/O."""
