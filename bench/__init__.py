"""Our figures beside a peer's and beside the store's own limit, from one run."""
