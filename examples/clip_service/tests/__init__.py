"""Tests of the service: real SQL, real HTTP, and days that pass at once."""
