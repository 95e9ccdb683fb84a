"""Commands for manage.py: `manage.py mainspring`."""
