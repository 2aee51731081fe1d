//! The folder and the file: whose they are, of what age, and who holds them.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rusqlite::Connection;

use super::*;

/// Every file of a folder with its bytes.
fn contents(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Storage: database of a newer version → refused by name.
#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_by_name_and_left_alone() {
    let home = Home::new();
    home.open().close().await.unwrap();
    let conn = Connection::open(home.dir.store_path()).unwrap();
    conn.pragma_update(None, "user_version", 9).unwrap();
    drop(conn);
    let before = contents(home.dir.path());
    let error = home.try_open(10).unwrap_err();
    assert_eq!(error.code(), Code::StoreNewer);
    assert!(
        error.message().ends_with("has version 9; this Cortex knows versions up to 2"),
        "{error}"
    );
    assert_eq!(contents(home.dir.path()), before);
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let home = Home::new();
    let path = home.dir.store_path();
    let foreign = Connection::open(&path).unwrap();
    foreign.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (a)").unwrap();
    drop(foreign);
    let database = std::fs::read(&path).unwrap();
    for bytes in [database, b"a letter".to_vec(), b"SQLite format 3\0".to_vec()] {
        std::fs::write(&path, bytes).unwrap();
        let before = contents(home.dir.path());
        let error = home.try_open(10).unwrap_err();
        assert_eq!(error.code(), Code::StoreCorrupt);
        assert!(error.message().contains("cortex.db is not a store of Cortex"), "{error}");
        assert_eq!(contents(home.dir.path()), before);
    }
}

#[tokio::test]
async fn a_damaged_store_is_called_damaged() {
    let home = Home::new();
    home.open().close().await.unwrap();
    let path = home.dir.store_path();
    let mut bytes = std::fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(100) {
        *byte = 0xA5;
    }
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(home.try_open(10).unwrap_err().code(), Code::StoreCorrupt);
}

#[tokio::test]
async fn a_start_that_was_cut_off_is_begun_again() {
    let home = Home::new();
    std::fs::write(home.dir.store_path(), b"").unwrap();
    std::fs::write(home.dir.path().join("cortex.db.new"), b"half a store").unwrap();
    let store = home.open();
    make_table(&store).await;
    assert_eq!(put(&store, 1, "x").await, Ok(1));
    assert!(!home.dir.path().join("cortex.db.new").exists());
}

#[tokio::test]
async fn every_table_is_strict_and_foreign_keys_are_on() {
    let home = Home::new();
    let store = home.open();
    let (loose, keys, durable): (i64, bool, i64) = store
        .write(|tx| {
            let one = |query: &str| tx.conn().query_row(query, [], |row| row.get(0)).map_err(sql);
            Ok((
                one("SELECT count(*) FROM pragma_table_list
                    WHERE schema = 'main' AND strict = 0 AND name NOT LIKE 'sqlite_%'")?,
                one("PRAGMA foreign_keys")? == 1,
                one("PRAGMA synchronous")?,
            ))
        })
        .await
        .unwrap();
    assert_eq!((loose, keys, durable), (0, true, 2));
}

#[test]
fn a_relative_data_directory_is_refused() {
    assert_eq!(DataDir::open("data").unwrap_err().code(), Code::DataDirNotAbsolute);
}

#[test]
fn an_unusable_data_directory_is_named_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let error = DataDir::open(file.join("data")).unwrap_err();
    assert_eq!(error.code(), Code::DataDirUnusable);
    assert!(error.message().contains(file.to_str().unwrap()), "{error}");
    assert!(
        error.message().contains("Not a directory") || cfg!(not(target_os = "linux")),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_new_data_directory_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    for path in [home.dir.path().to_owned(), home.dir.credentials_dir(), home.dir.logs_dir()] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
    }
    let store = home.open();
    let path = home.dir.store_path();
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(store);
}

#[test]
fn asking_for_the_holder_never_stands_in_the_way() {
    let folder = TempDir::new().unwrap();
    drop(DataDir::open(folder.path()).unwrap());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    DataDir::holder(folder.path());
                }
            });
        }
        for _ in 0..200 {
            let taken = DataDir::open(folder.path()).map(drop);
            if taken.is_err() {
                done.store(true, Ordering::Relaxed);
            }
            taken.unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Claims: a second core on the data directory → `core.data_dir_in_use`, also from another process.
#[test]
fn a_data_directory_has_one_core_and_names_its_process() {
    const NAME: &str = "store::tests::files::a_data_directory_has_one_core_and_names_its_process";
    if let Some(path) = role() {
        let held = DataDir::open(path).unwrap();
        write_line("held");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return drop(held);
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("data");
    assert_eq!(DataDir::holder(&path), None);
    let mut other = again(NAME, path.to_str().unwrap(), &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(other.stdout.take().unwrap());
    assert!(told.lines().any(|line| line.unwrap().ends_with("held")), "the other did not start");

    let error = DataDir::open(&path).unwrap_err();
    assert_eq!(error.code(), Code::DataDirInUse);
    assert!(error.message().ends_with(&format!("process {}", other.id())), "{error}");
    assert_eq!(error.detail("pid"), Some(&json!(other.id())));
    assert_eq!(DataDir::holder(&path), Some(other.id()));

    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(DataDir::holder(&path), None);
    let dir = DataDir::open(&path).unwrap();
    assert_eq!(DataDir::holder(&path), Some(std::process::id()));
    drop(dir);
    assert_eq!(DataDir::holder(&path), None);
}

#[expect(clippy::print_stdout, reason = "a word for the parent process")]
fn write_line(line: &str) {
    println!("{line}");
}
