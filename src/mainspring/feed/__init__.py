"""The live feed: events for dashboards and streams, published, stored and read."""
