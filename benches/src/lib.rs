//! What Cortex costs, beside a peer or the limit: `cargo bench -p cortex-benches`. The benches are the files beside this one.
