"""Who may come in, what they may do, and what they are shown."""
