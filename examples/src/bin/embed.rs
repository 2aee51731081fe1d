//! Embeds a core with a runtime of its own, runs an objective of two tasks and prints the results.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use cortex_examples::Shout;
use cortex_lib::api::operator::AddProject;
use cortex_lib::api::tool::{CreateAgent, CreateObjective, ListTasks, StartAgent};
use cortex_lib::domain::{event::EventKind, plan::TaskSpec};
use cortex_lib::{Cortex, Settings};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("cortex-embed-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("project"))?;
    let mut settings = Settings::default();
    settings.approvals.approve_unverified = true;
    let cortex = Cortex::builder(folder.join("data"))
        .settings(settings)
        .runtime(Arc::new(Shout::default()))
        .open()
        .await?;
    let user = cortex.as_user();

    let root = folder.join("project");
    let add = AddProject { name: "example".into(), root, verification: None };
    let project_id = user.call(add).await?.project.project_id;
    let ada = user.call(CreateAgent::new(&project_id, "ada", Shout::ID)).await?.agent;
    user.call(StartAgent { agent_id: ada.agent_id }).await?;

    let mut events = cortex.events(Some(cortex.newest_event()?));
    let greet = TaskSpec::new("greet", "hello");
    let repeat = TaskSpec::new("repeat", "once more:").after(["greet"]);
    let tasks = vec![greet, repeat];
    user.call(CreateObjective { project_id, title: "Shout".into(), tasks }).await?;
    while events.next().await?.is_some_and(|event| event.kind != EventKind::ObjectiveEnded) {}
    for task in user.call(ListTasks {}).await?.objectives.iter().flat_map(|one| &one.tasks) {
        let result = task.result.as_ref().map_or("nothing", |result| &result.text);
        println!("{} is {} and returned:\n{result}\n", task.key, task.status.as_str());
    }
    cortex.shutdown().await?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
