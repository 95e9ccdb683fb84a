"""The live feed: events for dashboards and streams, from publisher through the store to readers."""
