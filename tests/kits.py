"""The pytest of a user loads our plugin only; the other plugins of our tests take four seconds to load."""

USERS_PYTEST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "mainspring.testing.fixtures"}
