"""Of the plugins of pytest a user's has ours; the others that are here, for our tests, take it four seconds to load."""

USERS_PYTEST = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "mainspring.testing.fixtures"}
