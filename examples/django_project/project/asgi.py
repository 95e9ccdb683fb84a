"""The ASGI application: Django, and the dashboard at /ops for its staff."""

import os

from django.core.asgi import get_asgi_application

from mainspring.django import with_dashboard

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = with_dashboard(get_asgi_application(), "/ops")
