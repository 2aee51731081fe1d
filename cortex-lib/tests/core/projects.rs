//! Where a project may be.

use cortex_lib::api::operator::{AddProject, RemoveProject, UpdateProject};
use cortex_lib::api::tool::{ListProjects, StartAgent, StopAgent};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Code;

use crate::bench::{Setup, spec};
use crate::isolation::{in_git, isolated};

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

/// Platform: paths with spaces, non-ASCII, 230 characters, symlinked root → same project, works.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_root_with_spaces_non_ascii_230_characters_or_a_link_to_it_is_the_same_project_and_works()
{
    let long = format!("{}/{}", "l".repeat(115), "m".repeat(115));
    for (number, name) in ["with space", "größe-項目", "a'b\"c;--", &long].into_iter().enumerate()
    {
        let setup = Setup::new();
        let mut bench = setup.open().await;
        let (root, link) = (setup.root().join(name), setup.root().join("link"));
        fs_err::create_dir_all(&root).unwrap();
        fs_err::os::unix::fs::symlink(&root, &link).unwrap();
        let (first, again) = if number % 2 == 0 { (&root, &link) } else { (&link, &root) };
        let project = bench.call(add("q", first.clone())).await.project;
        assert_eq!(project.root, root, "the folder itself, by whatever name it was given");
        let slash = root.join("");
        for same in [again, first, &slash, &root.join(".")] {
            let error = bench.refuse(add("r", same.clone())).await;
            assert_eq!(error.code(), Code::ProjectRootTaken, "{same:?}");
            assert_eq!(error.detail("project_id").unwrap(), project.project_id.as_str());
        }
        bench.project = project.project_id;
        bench.ready("a").await;
        let task = bench.one_task(spec("x", &[])).await;
        bench.until_task(&task, TaskStatus::Blocked).await;
        assert_eq!(bench.world.openings()[0].cwd, root);
        assert_eq!(bench.world.turns().len(), 1);
    }
}

/// What a repository brings along counts when a person says so, and for sessions that start later.
#[tokio::test(start_paused = true)]
async fn a_project_is_trusted_by_a_person_and_only_for_later_sessions() {
    let bench = in_git().open().await;
    let agent = bench.ready("a").await;
    assert!(!bench.call(ListProjects {}).await.projects[0].trusted);
    let trust = |trusted| UpdateProject { trusted, ..UpdateProject::new(bench.project.clone()) };
    assert!(bench.call(trust(Some(true))).await.project.trusted);
    let seq = bench.cortex.newest_event().unwrap();
    assert!(bench.call(trust(Some(true))).await.project.trusted);
    assert_eq!(bench.cortex.newest_event().unwrap(), seq, "the same again is no event");
    let told =
        bench.told_after(0).into_iter().rfind(|event| event.kind == EventKind::ProjectUpdated);
    assert_eq!(told.unwrap().data, serde_json::json!({ "name": "p", "trusted": true }));

    let id = bench.one_task(isolated("x", &[])).await;
    bench.until_task(&id, TaskStatus::Blocked).await;
    bench.call(StopAgent { agent_id: agent.clone() }).await;
    bench.call(trust(Some(false))).await;
    bench.call(StartAgent { agent_id: agent }).await;
    let trusted: Vec<_> = bench.world.openings().iter().map(|spec| spec.trusted).collect();
    assert_eq!(trusted, [false, true, false], "its own, that of the attempt, its own again");
}
