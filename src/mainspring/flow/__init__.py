"""Flows: which steps of a plan run when, as pure functions of a flow's row."""
