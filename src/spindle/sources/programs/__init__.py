"""Programs that sources start: what they see of our environment, one run of them, and their end."""
