"""The example project with the tasks of these tests."""

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS as EXAMPLE_APPS

INSTALLED_APPS = [*EXAMPLE_APPS, "suite"]
