"""What people meet in a browser."""
