"""The contract as plain Python: store.py has a method for each verb, the other files what it does to the jobs."""
