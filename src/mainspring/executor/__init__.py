"""Where the function of a task runs: the event loop, a thread, or a child process with limits."""
