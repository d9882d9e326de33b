"""What `import whence` gives; wires the layers."""
