"""Migrations for manage.py migrate. A release that adds a step to the schema of a store adds one here."""
