"""A clip service: a web app with thirteen periodic jobs, on SQLite or PostgreSQL."""
