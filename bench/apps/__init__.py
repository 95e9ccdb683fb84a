"""The programs under test, one a system; each runs in its own process."""
