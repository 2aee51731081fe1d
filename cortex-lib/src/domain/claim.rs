//! Claims: the files that a task says it will touch, as globs relative to the project's root.

/// Whether two claims may mean the same file. It compares what stands before the first wildcard, so it may say
/// yes for two that never meet, and never no for two that do.
pub(super) fn globs_may_overlap(a: &str, b: &str) -> bool {
    let (a, b) = (Claim::of(a), Claim::of(b));
    a.may_hold(&b) || b.may_hold(&a)
}

/// A claimed path by its one spelling.
struct Claim {
    /// All of it, or what stands before its first wildcard.
    fixed: String,
    /// Whether a wildcard follows.
    open: bool,
}

impl Claim {
    /// `./src//a/` and `src/a` are the same claim, and so is `SRC/a`: on many disks they are the same file.
    fn of(glob: &str) -> Self {
        let names = glob.split('/').filter(|name| !name.is_empty() && *name != ".");
        let path = names.collect::<Vec<_>>().join("/").to_lowercase();
        match path.find(['*', '?', '[', '{']) {
            Some(at) => Self { fixed: path.split_at(at).0.to_owned(), open: true },
            None => Self { fixed: path, open: false },
        }
    }

    /// Whether something that `other` means may be meant by this claim: a folder means all below it.
    fn may_hold(&self, other: &Self) -> bool {
        match other.fixed.strip_prefix(&self.fixed) {
            Some(rest) => {
                self.open || self.fixed.is_empty() || rest.is_empty() || rest.starts_with('/')
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H-35: no claim that may mean the same file is missed, however it is written.
    #[test]
    fn claims_of_the_same_file_meet_however_they_are_written() {
        let meet = [
            ("src/a.rs", "src/a.rs"),
            ("./src/a.rs", "src/a.rs"),
            ("src//./a.rs", "src/a.rs"),
            ("src/", "src/a.rs"),
            ("src", "src/"),
            ("SRC/A.rs", "src/a.RS"),
            (".", "src/a.rs"),
            ("**", "src/a.rs"),
            ("**/a.rs", "src/a.rs"),
            ("src/*/a.rs", "src/x/a.rs"),
            ("src/*/a.rs", "src/*/b/../../x"),
            ("src/*.rs", "src/a.rs"),
            ("s*/a.rs", "src/*.rs"),
            ("src/a*", "src/abc/d"),
            ("src/{a,b}.rs", "src/b.rs"),
            ("src/[ab].rs", "src/b.rs"),
            ("sr?/a.rs", "src/a.rs"),
            ("src", "src/deep/er/*.rs"),
        ];
        for (a, b) in meet {
            assert!(globs_may_overlap(a, b) && globs_may_overlap(b, a), "{a} {b}");
        }
        let apart = [
            ("src", "src2"),
            ("src/a", "src/ab*"),
            ("src/a.rs", "src/b.rs"),
            ("docs/**", "src/**"),
            ("./docs/*", "src"),
        ];
        for (a, b) in apart {
            assert!(!globs_may_overlap(a, b) && !globs_may_overlap(b, a), "{a} {b}");
        }
    }
}
