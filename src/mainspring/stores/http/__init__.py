"""A server in front of the store: line.py talks to it, store.py has the verbs that its API can express.

What an API does in one call and a store in several is in mainspring.remote.
"""
