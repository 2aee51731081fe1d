//! How writes are committed together, and what becomes of them when something fails.
