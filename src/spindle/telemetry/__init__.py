"""Traces and metrics: what happens in a call, told to OpenTelemetry and Prometheus. Off, it costs a check."""
