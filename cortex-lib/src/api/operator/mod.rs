//! What only the person who runs Cortex may ask for, one file each. None of it is on MCP.
