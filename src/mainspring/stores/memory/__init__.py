"""The memory store: the Store contract as plain Python; its jobs are lost with the process."""
