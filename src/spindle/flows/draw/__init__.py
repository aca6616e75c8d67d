"""Flows as pictures: Mermaid text and SVG."""
