//! Where a project may be.

use cortex_lib::api::operator::{AddProject, RemoveProject};
use cortex_lib::error::Code;

use crate::bench::Setup;

fn add(name: &str, root: std::path::PathBuf) -> AddProject {
    AddProject { name: name.to_owned(), root, verification: None }
}

/// H-09: agents that work in the data directory would write into the store that they are run by.
#[tokio::test(start_paused = true)]
async fn a_project_may_not_be_the_data_directory_or_inside_it() {
    let setup = Setup::new();
    let bench = setup.open().await;
    let data = setup.root().join("data");
    fs_err::create_dir_all(data.join("logs")).unwrap();
    for root in [data.clone(), data.join("logs")] {
        let error = bench.refuse(add("q", root)).await;
        assert_eq!(error.code(), Code::ProjectInvalidRoot);
        assert_eq!(error.remediation(), "Give a folder outside of it.");
    }
    fs_err::create_dir(setup.root().join("data2")).unwrap();
    bench.call(add("q", setup.root().join("data2"))).await;
}

/// One folder by any name is one project, until that one is removed.
#[tokio::test(start_paused = true)]
async fn two_projects_may_not_share_a_root() {
    let setup = Setup::new();
    let bench = setup.open().await;
    for root in [setup.root(), setup.root().join("data/..")] {
        fs_err::create_dir_all(setup.root().join("data")).unwrap();
        let error = bench.refuse(add("q", root)).await;
        assert_eq!(error.code(), Code::ProjectRootTaken);
        assert_eq!(error.detail("project_id").unwrap(), bench.project.as_str());
    }
    bench.call(RemoveProject { project_id: bench.project.clone() }).await;
    bench.call(add("q", setup.root())).await;
}
