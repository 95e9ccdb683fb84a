"""What is stored and returned: jobs, runs, workers, documents. Plain data, no I/O."""
