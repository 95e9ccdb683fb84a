"""The demo: an example shop, somebody who keeps it busy, and a view of what its jobs do."""
