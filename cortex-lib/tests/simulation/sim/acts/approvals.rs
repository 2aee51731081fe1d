//! People who answer tool requests, once, twice, late or wrongly, and who keep rules.

use std::collections::BTreeMap;

use cortex_lib::api::operator::{
    AllowApproval, AlwaysAllowApproval, AnswerApproval, DenyApproval, GetApproval, ListApprovals,
    ListRules, MoveRule, PutRule, RemoveRule, TestRules,
};
use cortex_lib::api::view::ApprovalView;
use cortex_lib::domain::approval::{ApprovalStatus, Decide, Origin, Rule};
use cortex_lib::ids::ApprovalId;
use futures_util::future::join;

use crate::sim::hand::{Hand, MADE_UP};

/// Answers what waits, and now and then what does not.
pub async fn answer_approvals(hand: &Hand) {
    let state = (!hand.dice.once_in(8)).then_some(ApprovalStatus::Pending);
    let list = hand.call(ListApprovals { state, ..ListApprovals::default() }).await;
    let list = list.map(|list| list.approvals).unwrap_or_default();
    let Some(approval) = hand.dice.pick(&list) else { return };
    let id =
        if hand.dice.once_in(20) { ApprovalId::new(MADE_UP) } else { approval.approval_id.clone() };
    hand.call(GetApproval { approval_id: id.clone() }).await;
    if approval.questions.is_empty() || hand.dice.once_in(5) {
        decide(hand, id).await;
    } else {
        answer(hand, id, approval).await;
    }
}

async fn decide(hand: &Hand, id: ApprovalId) {
    let (allow, always, deny) = (
        AllowApproval { approval_id: id.clone() },
        AlwaysAllowApproval { approval_id: id.clone(), input: None },
        DenyApproval { approval_id: id.clone(), reason: None },
    );
    let (allowed, denied) = (Some(ApprovalStatus::Allowed), Some(ApprovalStatus::Denied));
    let status = match hand.dice.roll(7) {
        0..3 => hand.call(allow).await.and(allowed),
        3 | 4 => hand.call(deny).await.and(denied),
        5 => hand.call(always).await.and(allowed),
        _ => {
            let (one, other) = join(hand.call(allow), hand.call(deny)).await;
            if one.is_some() && other.is_some() {
                hand.may_not("a request was allowed and denied");
            }
            one.and(allowed).or(other.and(denied))
        }
    };
    note(hand, id, status);
}

async fn answer(hand: &Hand, id: ApprovalId, approval: &ApprovalView) {
    let answers = approval.questions.iter().map(|question| {
        let label = question.choices.first().map(|choice| choice.label.clone());
        let wrong = hand.dice.once_in(6).then(|| "something else".to_owned());
        (question.id.clone(), vec![wrong.or(label).unwrap_or_default()])
    });
    let answers = answers.collect::<BTreeMap<_, _>>();
    let answered = hand.call(AnswerApproval { approval_id: id.clone(), answers }).await;
    note(hand, id, answered.and(Some(ApprovalStatus::Allowed)));
}

/// What was answered stands.
fn note(hand: &Hand, id: ApprovalId, status: Option<ApprovalStatus>) {
    if let Some(status) = status {
        hand.told.borrow_mut().answered.insert(id, status);
    }
}

/// Keeps the rules of a project.
pub async fn keep_rules(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let Some(list) = hand.call(ListRules { project_id: project_id.clone() }).await else { return };
    let any = hand.dice.once_in(10);
    let own = list.rules.into_iter().filter(|rule| any || rule.origin == Origin::Project);
    let ids: Vec<_> = own.map(|rule| rule.id).collect();
    let id = hand.dice.pick(&ids).cloned().unwrap_or_default();
    let place = u32::try_from(1 + hand.dice.roll(4)).unwrap();
    match hand.dice.roll(if ids.is_empty() { 1 } else { 3 }) {
        2 => drop(hand.call(MoveRule { project_id, id, place }).await),
        1 => drop(hand.call(RemoveRule { project_id, id }).await),
        _ => {
            let decides = [Decide::Allow, Decide::Deny, Decide::Ask, Decide::Ask];
            let agents = hand.agents().await;
            let agent = hand.dice.pick(&agents).filter(|_| hand.dice.once_in(3));
            let rule = Rule {
                id: format!("rule-{}", hand.dice.roll(5)),
                tool: if hand.dice.once_in(20) { "[" } else { "Bash" }.to_owned(),
                input: hand.dice.once_in(2).then(|| "ls*".to_owned()),
                agent: agent.map(|agent| agent.name.clone()),
                decide: *hand.dice.pick(&decides).unwrap(),
            };
            let place = hand.dice.once_in(2).then_some(place);
            hand.call(PutRule { project_id, rule, place }).await;
        }
    }
}

/// Tries rules on what was asked before.
pub async fn try_rules(hand: &Hand) {
    let Some(project_id) = hand.project().await else { return };
    let test = TestRules { project_id, agent_id: None, rules: None, limit: 50 };
    hand.call(test).await;
}
