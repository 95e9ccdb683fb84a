"""Tasks: registered functions, their options, the context of a run, and the handle of a job."""
