"""Coroutine tests run by our own plugin."""

pytest_plugins = ["mainspring.testing.plugin"]
