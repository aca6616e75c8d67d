"""Where state lives: implementations of the store port."""
