//! What the fuzz targets try inputs with. It is that of the tests that replay the corpus.

#[path = "../tests/fuzz/arguments.rs"]
pub mod arguments;
#[path = "../tests/fuzz/connection.rs"]
pub mod connection;
#[path = "../tests/fuzz/shape.rs"]
pub mod shape;
#[path = "../tests/fuzz/stage.rs"]
pub mod stage;
