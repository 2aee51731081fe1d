//! Every tool by every caller at the endpoint, each with a credential that Cortex handed out: against the table that
//! says it again.

use cortex_lib::api::tool::{CreateAgent, CreateObjective, StopAgent};
use cortex_lib::domain::agent::Role;
use cortex_lib::domain::plan::TaskSpec;
use cortex_lib::ids::{AgentId, ProjectId};
use cortex_lib::port::McpAccess;
use cortex_lib::secret::Secret;
use serde_json::{Value, json};

use crate::access_table::{ABSENT, Foreign, Names, TABLE, assert_admitted, present};
use crate::http::Request;
use crate::sessions::{Ground, Place, SCRIPTED, USER, add_project, code};

/// A core with two projects that have the same things, and the sessions of an orchestrator and a worker in the first.
struct Matrix {
    place: Place,
    own: Names,
    other: Names,
    agents: [AgentId; 2],
    /// Each by its letter in the table.
    callers: [(char, Secret); 4],
}

impl Matrix {
    async fn open(ground: &Ground, elsewhere: &tempfile::TempDir) -> Self {
        let place = Place::open(ground).await;
        let foreign = add_project(&place.cortex, "other", elsewhere.path()).await;
        let boss = place.ready("boss", Role::Orchestrator).await;
        let worker = place.ready("peer", Role::Worker).await;
        let (_, McpAccess { token: orchestrator, .. }) = place.access(&boss);
        let (_, McpAccess { token: agent, hook_token: hook, .. }) = place.access(&worker);
        let own = things(&place, &place.project, &worker, "fresh").await;
        let peer = agent_of(&place, &foreign, "peer").await;
        let other = things(&place, &foreign, &peer, "fresh too").await;
        let callers = [('H', hook), ('A', agent), ('O', orchestrator), ('U', Secret::new(USER))];
        Self { place, own, other, agents: [boss, worker], callers }
    }

    /// What the holder of a credential is told, and its code: `ok` when the call was done.
    async fn told(&self, token: &Secret, tool: &str, args: &Value) -> (String, String) {
        let answer = self.place.call(token, tool, args.clone()).await;
        let code = if code(&answer).is_empty() { "ok" } else { code(&answer) };
        (code.to_owned(), answer.to_string())
    }

    /// The status and the code for a credential that is nobody's, or for none.
    async fn refused(&self, token: Option<&Secret>, tool: &str) -> (u16, String) {
        let params = json!({ "name": tool, "arguments": {} });
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let port = self.place.server.port();
        let shown = token.map_or("", Secret::expose);
        let request = Request::post(port, shown, message.to_string());
        let request = if token.is_some() { request } else { request.without("Authorization") };
        let answer = request.send(port).await;
        (answer.status, code(&answer.json()).to_owned())
    }
}

async fn agent_of(place: &Place, project: &ProjectId, name: &str) -> AgentId {
    let create = CreateAgent::new(project, name, SCRIPTED);
    place.cortex.as_user().call(create).await.unwrap().agent.agent_id
}

async fn things(place: &Place, project: &ProjectId, peer: &AgentId, fresh: &str) -> Names {
    let agent = agent_of(place, project, "target").await;
    // Pinned to an agent that does not live, so that it stays as it is.
    let task = TaskSpec { assigned_agent_id: Some(agent.clone()), ..TaskSpec::new("x", "Do x.") };
    let create =
        CreateObjective { project_id: project.clone(), title: "o".to_owned(), tasks: vec![task] };
    let objective = place.cortex.as_user().call(create).await.unwrap().objective;
    Names {
        project: project.to_string(),
        agent: agent.to_string(),
        peer: peer.to_string(),
        task: objective.tasks[0].task_id.to_string(),
        objective: objective.objective_id.to_string(),
        fresh: fresh.to_owned(),
    }
}

/// S-021, S-050, S-054, S-138, S-230, S-232, S-237, S-239, H-03, H-04, H-07: 34 tools × 5 callers.
#[tokio::test]
async fn every_tool_answers_every_credential_as_the_table_says_until_it_ends() {
    let mut cells = 0;
    for (_, (tool, _, allowed, foreign, args)) in present() {
        let (ground, elsewhere) = (Ground::new(), tempfile::tempdir().unwrap());
        let matrix = Matrix::open(&ground, &elsewhere).await;
        for (letter, token) in &matrix.callers {
            for (names, is_own) in [(&matrix.other, false), (&matrix.own, true)] {
                let cell = format!("{tool} by {letter}, own: {is_own}");
                let (code, told) = matrix.told(token, tool, &args(names)).await;
                cells += 1;
                let tells = matrix.other.all().into_iter().find(|id| told.contains(id));
                assert!(*letter == 'U' || !is_own || tells.is_none(), "{cell}: {told}");
                match foreign {
                    _ if !allowed.contains(*letter) => {
                        assert_eq!(code, "permission.denied", "{cell}");
                    }
                    Foreign::Unmade(wanted) => assert_eq!(code, wanted, "{cell}"),
                    Foreign::Hidden(wanted) if !is_own && *letter != 'U' => {
                        assert_eq!(code, wanted, "{cell}");
                    }
                    Foreign::Hidden(_) | Foreign::Unnamed => assert_admitted(&code, &cell),
                }
            }
        }
        let nobody = matrix.refused(None, tool).await;
        assert_eq!(nobody, (401, "auth.missing".to_owned()), "{tool}");
        cells += 1;

        for agent_id in &matrix.agents {
            let stop = StopAgent { agent_id: agent_id.clone() };
            matrix.place.cortex.as_user().call(stop).await.unwrap();
        }
        let new = Secret::new("cortex_user_1");
        matrix.place.server.set_user_token(&new);
        for (letter, token) in &matrix.callers {
            let ended = matrix.refused(Some(token), tool).await;
            assert_eq!(ended, (401, "auth.invalid".to_owned()), "{tool} by {letter} after its end");
            cells += 1;
        }
        assert_ne!(matrix.told(&new, tool, &json!({})).await.0, "permission.denied", "{tool}");
    }
    assert_eq!(cells, (TABLE.len() - ABSENT.len()) * 13);
}

/// H-01.
#[tokio::test]
async fn every_credential_lists_the_tools_that_it_may_call_in_the_order_of_the_table() {
    let (ground, elsewhere) = (Ground::new(), tempfile::tempdir().unwrap());
    let matrix = Matrix::open(&ground, &elsewhere).await;
    for (letter, token) in &matrix.callers {
        let allowed = present().filter(|(_, line)| line.2.contains(*letter));
        let names: Vec<_> = allowed.map(|(tool, _)| tool.name.to_owned()).collect();
        assert_eq!(matrix.place.tools(token).await, names, "{letter}");
    }
}
