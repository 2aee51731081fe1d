//! Tasks as a tree: each below the one it waits for last.

use cortex_lib::api::view::TaskView;
use cortex_lib::ids::TaskId;

/// Where a task stands in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which task.
    pub(crate) at: usize,
    /// The lines before it.
    pub(crate) branches: String,
}

/// Every task once, parents before children. A task with several dependencies stands below the deepest of them:
/// it comes after all of them.
pub(crate) fn places(tasks: &[TaskView]) -> Vec<Place> {
    let parents: Vec<Option<usize>> = tasks.iter().map(|task| parent(tasks, task)).collect();
    let mut places = Vec::new();
    let mut open = vec![(None::<usize>, String::new())];
    // A stack instead of recursion: the children of a task are pushed in reverse, each with its branches.
    while let Some((node, indent)) = open.pop() {
        let children: Vec<usize> = parents
            .iter()
            .enumerate()
            .filter(|(_, parent)| **parent == node)
            .map(|(at, _)| at)
            .collect();
        if let Some(at) = node {
            let (branches, inner) = match indent.strip_suffix('+') {
                Some(rest) => (format!("{rest}├─ "), format!("{rest}│  ")),
                None => match indent.strip_suffix('-') {
                    Some(rest) => (format!("{rest}└─ "), format!("{rest}   ")),
                    None => (String::new(), String::new()),
                },
            };
            places.push(Place { at, branches });
            for (nth, child) in children.iter().enumerate().rev() {
                let mark = if nth.saturating_add(1) == children.len() { '-' } else { '+' };
                open.push((Some(*child), format!("{inner}{mark}")));
            }
        } else {
            open.extend(children.iter().rev().map(|child| (Some(*child), String::new())));
        }
    }
    places
}

fn parent(tasks: &[TaskView], task: &TaskView) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for id in &task.depends_on {
        let depth = depth(tasks, id, tasks.len());
        if let Some(at) = index(tasks, id)
            && best.is_none_or(|(_, deepest)| depth > deepest)
        {
            best = Some((at, depth));
        }
    }
    best.map(|(at, _)| at)
}

/// How many tasks come before this one at least. `limit`: no chain is longer, so that a cycle would end.
fn depth(tasks: &[TaskView], id: &TaskId, limit: usize) -> usize {
    let Some(task) = index(tasks, id).and_then(|at| tasks.get(at)).filter(|_| limit > 0) else {
        return 0;
    };
    let before = task.depends_on.iter().map(|on| depth(tasks, on, limit.saturating_sub(1)));
    before.max().map_or(0, |deepest| deepest.saturating_add(1))
}

fn index(tasks: &[TaskView], id: &TaskId) -> Option<usize> {
    tasks.iter().position(|task| task.task_id == *id)
}
