"""The principal of a call, and the credentials that its source sees."""
