"""A task: its function, its options, and what a running function may use."""
