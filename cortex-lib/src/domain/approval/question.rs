//! What an agent asks its user, and whether an answer fits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Problem;
use crate::limits::QUESTIONS_BYTES_MAX;

/// A question of an agent to its user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Question {
    /// Its name among the questions of one request.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// The answers that are offered.
    pub choices: Vec<Choice>,
    /// More than one of them may be given.
    pub multiple: bool,
    /// Other words than those offered may be given.
    pub free_text: bool,
}

/// An answer that a question offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Choice {
    /// What is answered by it.
    pub label: String,
    /// What it means, when that is told.
    pub description: Option<String>,
}

/// What a person answered, by the id of the question.
pub type Answers = BTreeMap<String, Vec<String>>;

/// What is wrong with `answers` to `questions`, all of it at once.
pub fn problems_of_answers(questions: &[Question], answers: &Answers) -> Vec<Problem> {
    if json!(answers).to_string().len() > QUESTIONS_BYTES_MAX {
        let problem = format!("the answers have more than {QUESTIONS_BYTES_MAX} bytes");
        return vec![Problem::new("answers", problem)];
    }
    let at = |id: &str| format!("answers.{id}");
    let unknown = answers
        .keys()
        .filter(|id| !questions.iter().any(|question| question.id == **id))
        .map(|id| Problem::new(at(id), "no question has this id"));
    let wrong = questions.iter().filter_map(|question| {
        let given = answers.get(&question.id).map_or(&[][..], Vec::as_slice);
        question.problem(given).map(|problem| Problem::new(at(&question.id), problem))
    });
    unknown.chain(wrong).collect()
}

impl Question {
    fn problem(&self, given: &[String]) -> Option<String> {
        if given.iter().all(|answer| answer.trim().is_empty()) {
            return Some("this question has no answer".to_owned());
        }
        if given.len() > 1 && !self.multiple {
            return Some("this question takes one answer".to_owned());
        }
        let offered = |answer: &String| self.choices.iter().any(|choice| choice.label == *answer);
        let other = given.iter().find(|answer| !offered(answer)).filter(|_| !self.free_text);
        other.map(|answer| format!("{answer:?} is not one of the answers that are offered"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, labels: &[&str], multiple: bool, free_text: bool) -> Question {
        let choices =
            labels.iter().map(|label| Choice { label: (*label).to_owned(), description: None });
        Question {
            id: id.to_owned(),
            text: "which?".to_owned(),
            choices: choices.collect(),
            multiple,
            free_text,
        }
    }

    #[test]
    fn each_question_takes_what_it_offers() {
        let questions =
            [question("one", &["a", "b"], false, false), question("any", &["a"], true, true)];
        let problems = |one: &[&str], any: &[&str], more: Option<&str>| {
            let words = |given: &[&str]| given.iter().map(|word| (*word).to_owned()).collect();
            let given = [("one", words(one)), ("any", words(any))];
            let more = more.map(|id| (id.to_owned(), vec!["a".to_owned()]));
            let answers: Answers =
                given.into_iter().map(|(id, words)| (id.to_owned(), words)).chain(more).collect();
            let found = problems_of_answers(&questions, &answers);
            found.into_iter().map(|problem| problem.path).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(problems(&["a"], &["a", "something else"], None), none);
        assert_eq!(problems(&["a", "b"], &["a"], None), ["answers.one"], "one answer only");
        assert_eq!(problems(&["c"], &["a"], None), ["answers.one"], "not offered");
        assert_eq!(problems(&[], &[" "], None), ["answers.one", "answers.any"], "unanswered");
        assert_eq!(problems(&["a"], &["a"], Some("other")), ["answers.other"], "not asked");
        let long = "x".repeat(20_000);
        assert_eq!(problems(&["a"], &[&long], None), ["answers"], "more than is kept");
    }
}
