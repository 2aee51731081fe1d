//! The tools, one file each, called by the tool's name.
