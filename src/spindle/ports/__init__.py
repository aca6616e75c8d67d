"""Every extension point, one page each."""
