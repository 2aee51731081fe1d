//! A core on its own folder, with real files.

use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::ListProjects;
use cortex_lib::{Code, Cortex};
use tempfile::TempDir;

/// Claims: a second core on the data directory → `core.data_dir_in_use`.
#[tokio::test]
async fn a_second_core_on_the_data_directory_is_data_dir_in_use_and_the_first_goes_on() {
    let folder = TempDir::new().unwrap();
    let first = Cortex::builder(folder.path().join("data")).open().await.unwrap();
    for path in ["data", "data/../data"] {
        let second = Cortex::builder(folder.path().join(path)).open().await;
        assert_eq!(second.unwrap_err().code(), Code::DataDirInUse, "{path}");
    }
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        fs_err::os::unix::fs::symlink(folder.path().join("data"), &link).unwrap();
        let second = Cortex::builder(link).open().await;
        assert_eq!(second.unwrap_err().code(), Code::DataDirInUse, "by another name");
    }
    first.as_user().call(ListProjects {}).await.unwrap();
    first.shutdown().await.unwrap();
    drop(first);
    Cortex::builder(folder.path().join("data")).open().await.unwrap();
}

/// Platform: paths with spaces, non-ASCII, 230 characters; and what a URI or SQL would read as more than a name.
#[tokio::test]
async fn a_data_directory_with_an_odd_name_keeps_what_it_is_told() {
    let long = format!("{}/{}", "l".repeat(115), "m".repeat(115));
    for name in ["with space", "größe-項目", "a'b\"c", "50%25?mode=memory#x;--", &long] {
        let folder = TempDir::new().unwrap();
        let dir = folder.path().join(name);
        let root = folder.path().join("project");
        fs_err::create_dir(&root).unwrap();
        let cortex = Cortex::builder(&dir).open().await.unwrap();
        let add = AddProject { name: "p".into(), root, verification: None };
        let project = cortex.as_user().call(add).await.unwrap().project;
        cortex.shutdown().await.unwrap();
        drop(cortex);
        assert!(dir.join("cortex.db").is_file(), "{name}");
        let cortex = Cortex::builder(&dir).open().await.unwrap();
        let listed = cortex.as_user().call(ListProjects {}).await.unwrap().projects;
        assert_eq!(listed[0].project_id, project.project_id, "{name}");
        cortex.shutdown().await.unwrap();
    }
}
