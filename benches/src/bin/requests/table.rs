//! The servers side by side, and what is printed of them.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::{load, request};
use crate::run::Asked;
use crate::server::{Calls, Server, TOKEN, calls};

/// The goals: at most so many times the processor time of bare hyper, and an SDK takes at least so many times ours.
const OF_BARE_MAX: f64 = 4.0;
const OF_OURS_MIN: f64 = 10.0;
/// How long a server is asked in a round.
const BUSY: Duration = Duration::from_secs(1);

/// What one server took in one round.
#[derive(Clone, Copy, Debug)]
struct Took {
    cpu_us: f64,
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

pub(crate) async fn measure(asked: &Asked) -> Result<()> {
    let core = Server::cortex()?;
    let calls = calls(&core).await?;
    let mut servers = vec![Server::bare(&calls)?, core];
    if let Some(folder) = &asked.node {
        servers.push(Server::typescript(folder, &calls)?);
    }
    if let Some(python) = &asked.python {
        servers.push(Server::python(python, &calls)?);
    }
    for connections in [1, 32] {
        for (tool, body) in tools(&calls) {
            println!("\n== {tool}, {connections} connections at once, {} rounds", asked.rounds);
            let rounds = run(&servers, body, connections, asked.rounds).await?;
            print(&servers, &rounds);
        }
    }
    Ok(())
}

fn tools(calls: &Calls) -> [(&'static str, &str); 2] {
    [("list_tasks", &calls.list), ("cancel_task", &calls.cancel)]
}

/// The rounds of each server. In each round all take their turn, so that the machine is in the same mood for all.
async fn run(
    servers: &[Server],
    body: &str,
    connections: usize,
    rounds: usize,
) -> Result<Vec<Vec<Took>>> {
    let mut all = vec![Vec::new(); servers.len()];
    for server in servers {
        // Programs load what they need, and compile what is hot.
        load(server.port, &request(server.port, TOKEN, body), BUSY * 2, connections).await?;
    }
    for round in 0..rounds {
        for place in 0..servers.len() {
            // Each round begins with another one.
            let place = (place + round) % servers.len();
            let (Some(server), Some(took)) = (servers.get(place), all.get_mut(place)) else {
                continue;
            };
            took.push(one(server, body, connections).await?);
        }
    }
    Ok(all)
}

async fn one(server: &Server, body: &str, connections: usize) -> Result<Took> {
    let request = request(server.port, TOKEN, body);
    let (before, began) = (server.cpu()?, Instant::now());
    let took = load(server.port, &request, BUSY, connections).await?;
    let (cpu, wall) = (server.cpu()? - before, began.elapsed().as_secs_f64());
    let requests = f64::from(u32::try_from(took.len())?);
    let at = |hundredths: usize| took.get(took.len() * hundredths / 100).copied();
    Ok(Took {
        cpu_us: cpu * 1e6 / requests,
        per_second: requests / wall,
        p50: at(50).unwrap_or_default(),
        p99: at(99).unwrap_or_default(),
    })
}

fn print(servers: &[Server], rounds: &[Vec<Took>]) {
    let cpu: Vec<f64> = rounds.iter().map(|of| median(of, |took| took.cpu_us)).collect();
    let [bare, ours, ..] = cpu.as_slice() else { return };
    for ((server, of), cpu) in servers.iter().zip(rounds).zip(&cpu) {
        let (rate, p50, p99) = (
            median(of, |took| took.per_second),
            median(of, |took| took.p50.as_secs_f64() * 1e6),
            median(of, |took| took.p99.as_secs_f64() * 1e6),
        );
        let name = server.name;
        println!(
            "  {name:16} {cpu:8.1} µs of processor  {rate:8.0} a second  p50 {p50:7.0} µs  p99 {p99:7.0} µs"
        );
    }
    println!("  Cortex to bare: {:.1} ({})", ours / bare, verdict(ours / bare <= OF_BARE_MAX));
    for (server, cpu) in servers.iter().zip(&cpu).skip(2) {
        let times = cpu / ours;
        println!("  {} to Cortex: {times:.1} ({})", server.name, verdict(times >= OF_OURS_MIN));
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

fn median(rounds: &[Took], of: impl Fn(&Took) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
