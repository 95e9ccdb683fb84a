"""Webhooks: outbound ones deliver events to other servers; inbound triggers let other servers start jobs here."""
