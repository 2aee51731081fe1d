//! Which answer of a script a request gets: the first rule that fits, with the words it takes from
//! the conversation put in.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::record::{AnsweredBy, Request};
use crate::script::{Answer, Block, Script, Take, Times, When};

impl Script {
    /// The answer to a request, with its taken words put in, and what gives it.
    pub(crate) fn choose(
        &self,
        request: &Request,
        counts: &mut Counts,
    ) -> (AnsweredBy, Option<Answer>) {
        let during = self.during(request);
        for (number, rule) in self.rules.iter().enumerate() {
            let Some(words) = rule.when.fits(request, during) else { continue };
            if counts.admits(number, request.conversation.as_deref(), rule.when.times) {
                return (
                    AnsweredBy::Rule(number),
                    Some(rule.answer.filled(&words, &request.tools)),
                );
            }
        }
        match &self.otherwise {
            Some(answer) => (AnsweredBy::Otherwise, Some(answer.clone())),
            None => (AnsweredBy::Nothing, None),
        }
    }

    /// Which of the texts that `during` of a rule names the user said last, and how many tool results came since.
    fn during(&self, request: &Request) -> Option<(&str, usize)> {
        let named: Vec<_> =
            self.rules.iter().filter_map(|rule| rule.when.during.as_deref()).collect();
        let mut results = 0;
        for one in request.texts.iter().rev() {
            if one.role == "tool" {
                results += 1;
            } else if one.role == "user"
                && let Some(said) = named.iter().find(|named| one.text.contains(**named))
            {
                return Some((said, results));
            }
        }
        None
    }
}

/// How often each rule has met its conditions, by conversation.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<(usize, Option<String>), u32>);

impl Counts {
    fn admits(&mut self, rule: usize, conversation: Option<&str>, times: Times) -> bool {
        let seen = self.0.entry((rule, conversation.map(str::to_owned))).or_default();
        *seen = seen.saturating_add(1);
        match times {
            Times::Every => true,
            Times::Nth(n) => *seen == n,
            Times::First(n) => *seen <= n,
        }
    }
}

impl When {
    fn fits(
        &self,
        request: &Request,
        during: Option<(&str, usize)>,
    ) -> Option<BTreeMap<String, String>> {
        let has = |wanted: &Option<String>, found: &dyn Fn(&str) -> bool| {
            wanted.as_deref().is_none_or(found)
        };
        let is_during = self.during.as_deref().is_none_or(|wanted| {
            during.is_some_and(|(said, results)| {
                said == wanted && self.results.is_none_or(|count| count == results)
            })
        });
        let fits = is_during
            && has(&self.last_user, &|text| request.last_user.contains(text))
            && has(&self.tool_result, &|text| {
                request.tool_results.iter().any(|result| result.text.contains(text))
            })
            && has(&self.any_text, &|text| {
                request.system.contains(text)
                    || request.texts.iter().any(|one| one.text.contains(text))
            })
            && has(&self.tool_offered, &|name| request.tools.iter().any(|tool| tool == name))
            && has(&self.model, &|name| request.model.contains(name));
        if !fits {
            return None;
        }
        self.take.iter().map(|take| Some((take.name.clone(), take.find(request)?))).collect()
    }
}

impl Take {
    fn find(&self, request: &Request) -> Option<String> {
        let texts = request.texts.iter().rev().map(|one| &one.text);
        texts.chain([&request.system]).find_map(|text| {
            let (_, rest) = text.rsplit_once(&self.after)?;
            rest.split_once(&self.until).map(|(word, _)| word.to_owned())
        })
    }
}

impl Answer {
    fn filled(&self, words: &BTreeMap<String, String>, offered: &[String]) -> Self {
        let mut filled = self.clone();
        for block in &mut filled.blocks {
            match block {
                Block::Text(text) | Block::Thinking(text) => fill(text, words),
                Block::Tool { name, input } => {
                    fill_value(input, words);
                    let found = name
                        .strip_prefix('*')
                        .and_then(|end| offered.iter().find(|offered| offered.ends_with(end)));
                    if let Some(found) = found {
                        name.clone_from(found);
                    }
                }
            }
        }
        filled
    }
}

fn fill(text: &mut String, words: &BTreeMap<String, String>) {
    for (name, word) in words {
        *text = text.replace(&format!("{{{{{name}}}}}"), word);
    }
}

fn fill_value(value: &mut Value, words: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => fill(text, words),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_value(item, words)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_value(field, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Text;

    fn said(text: &str) -> Request {
        Request {
            last_user: text.to_owned(),
            texts: vec![Text { role: "user".to_owned(), text: text.to_owned() }],
            ..Request::default()
        }
    }

    #[test]
    fn the_first_rule_that_fits_answers() {
        let script = Script::new()
            .on(When::last_user("b"), Answer::text("one"))
            .on(When::last_user("a"), Answer::text("two"))
            .otherwise(Answer::text("three"));
        let mut counts = Counts::default();
        let mut ask = |text| script.choose(&said(text), &mut counts).1;
        assert_eq!(ask("a"), Some(Answer::text("two")));
        assert_eq!(ask("ab"), Some(Answer::text("one")));
        assert_eq!(ask("c"), Some(Answer::text("three")));
    }

    #[test]
    fn a_rule_may_stand_for_a_step_of_an_instruction() {
        let script = Script::new()
            .on(When::during("one", 0), Answer::text("first"))
            .on(When::during("one", 1), Answer::text("second"))
            .on(When::during("two", 0), Answer::text("other"));
        let mut counts = Counts::default();
        let mut ask = |texts: &[(&str, &str)]| {
            let text = |(role, text): &(&str, &str)| Text {
                role: (*role).to_owned(),
                text: (*text).to_owned(),
            };
            let texts = texts.iter().map(text).collect();
            script.choose(&Request { texts, ..Request::default() }, &mut counts).1
        };
        let one = ("user", "do one");
        let tool = ("tool", "one is two");
        assert_eq!(ask(&[one]), Some(Answer::text("first")));
        assert_eq!(ask(&[one, tool, ("user", "by the way")]), Some(Answer::text("second")));
        assert_eq!(ask(&[one, tool, tool]), None);
        assert_eq!(ask(&[one, tool, ("user", "do two")]), Some(Answer::text("other")));
    }

    #[test]
    fn times_are_counted_in_each_conversation() {
        let script = Script::new()
            .on(When::any().first(1), Answer::status(429))
            .on(When::any().nth(2), Answer::text("third request"))
            .otherwise(Answer::text("else"));
        let mut counts = Counts::default();
        let mut ask = |conversation: &str| {
            let conversation = Some(conversation.to_owned());
            script.choose(&Request { conversation, ..Request::default() }, &mut counts).1.unwrap()
        };
        let first = [ask("x"), ask("x"), ask("x"), ask("x")];
        let [refused, other] = [Answer::status(429), Answer::text("else")];
        assert_eq!(first, [refused.clone(), other.clone(), Answer::text("third request"), other]);
        assert_eq!(ask("y"), refused);
    }

    #[test]
    fn a_tool_may_be_called_by_the_end_of_its_name() {
        let script = Script::new().otherwise(Answer::text("else"));
        let script = script.on(When::any(), Answer::tool("*_list", json!({})));
        let request = Request { tools: vec!["read".into(), "our_list".into()], ..said("x") };
        let (_, answer) = script.choose(&request, &mut Counts::default());
        assert_eq!(answer, Some(Answer::tool("our_list", json!({}))));
    }

    #[test]
    fn a_word_of_the_conversation_goes_into_a_tool_call() {
        let answer = Answer::tool("finish", json!({"ids": ["{{id}}"], "n": 1}));
        let script = Script::new().on(When::any().take("id", "task ", "."), answer);
        let mut counts = Counts::default();
        assert_eq!(script.choose(&said("nothing here"), &mut counts).1, None);
        assert_eq!(
            script.choose(&said("not task a. but task b."), &mut counts).1,
            Some(Answer::tool("finish", json!({"ids": ["b"], "n": 1})))
        );
    }
}
