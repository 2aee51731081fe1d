//! The generated pages of `docs/` say what the code says.
#![expect(clippy::unwrap_used, reason = "a test may stop")]
#![expect(clippy::disallowed_methods, reason = "it writes what it generates")]

use cortex_lib::api::{Catalogue, reference};

/// Compares a page with what is stored; with `UPDATE` set, stores it.
fn is_current(name: &str, page: &str) {
    let path = format!("{}/../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE").is_some() {
        fs_err::write(&path, page).unwrap();
    }
    let stored = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(
        stored.replace("\r\n", "\n") == page,
        "docs/{name} is stale: run `UPDATE=1 cargo test -p cortex-lib --test reference`"
    );
}

/// S-008.
#[test]
fn the_tools_are_described() {
    is_current("tools.md", &reference::tools(Catalogue::CORTEX.tools));
}

#[test]
fn the_operator_commands_are_described() {
    is_current("operator.md", &reference::operator(Catalogue::CORTEX.operator));
}

#[test]
fn the_errors_are_described() {
    is_current("errors.md", &reference::errors(Catalogue::CORTEX));
}
