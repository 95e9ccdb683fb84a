"""Webhooks: what happened, told to other people's servers; and their word that sets something off here."""
