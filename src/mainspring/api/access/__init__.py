"""Authentication, roles and scopes, and the redaction of secrets."""
