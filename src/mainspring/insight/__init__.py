"""Insight: statistics, queue depths, why a job waits, what is wrong, and the settings in force."""
