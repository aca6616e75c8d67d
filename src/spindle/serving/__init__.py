"""The parts that all ways of serving over HTTP share: access control and listening."""
