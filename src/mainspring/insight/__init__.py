"""Answers about the whole: statistics, queue depths, why a job waits, and what is wrong."""
