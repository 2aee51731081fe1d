//! Which model answers. It is always named in full: without a name OpenCode takes one that it hosts itself, and prompts
//! would leave the machine unasked. Pure.

use cortex_lib::error::{Code, Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::rules::Agent;

/// A model by its provider and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) provider: String,
    pub(super) name: String,
}

/// What `/config/providers` tells: the providers that are connected.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Providers {
    providers: Vec<Provider>,
}

#[derive(Debug, Deserialize)]
struct Provider {
    id: String,
    #[serde(default)]
    models: serde_json::Map<String, Value>,
}

/// What to do when nobody is logged in.
pub(super) const LOG_IN: &str =
    "Run `opencode auth login` in a terminal, or add a provider to OpenCode's configuration.";
const NAME_ONE: &str = "Set `model` in OpenCode's configuration, or give the agent a model as provider/model; `opencode models` lists them.";

impl Model {
    /// The model of a session: the agent's, or the one in OpenCode's own configuration.
    ///
    /// # Errors
    ///
    /// `runtime.start_failed` when none is named or it is not there, `runtime.not_logged_in` when its provider is not
    /// connected.
    pub(super) fn choose(
        named: Option<&str>,
        agent: &Agent,
        config: &Value,
        providers: &Providers,
    ) -> Result<Self> {
        let configured = config.get("model").and_then(Value::as_str);
        let of_agent = agent.model.as_ref().map(|one| format!("{}/{}", one.provider, one.model));
        let name = named
            .map(str::to_owned)
            .or(of_agent)
            .or_else(|| configured.map(str::to_owned))
            .filter(|name| !name.trim().is_empty());
        if providers.providers.is_empty() {
            let message = "OpenCode is connected to no provider of models";
            return Err(Error::new(Code::RuntimeNotLoggedIn, message).remedy(LOG_IN));
        }
        let Some(name) = name else {
            let message =
                "no model is named: OpenCode would send what is asked to one that it hosts";
            return Err(Error::new(Code::RuntimeStartFailed, message).remedy(NAME_ONE));
        };
        let Some((provider, model)) = name.split_once('/') else {
            let message = format!("OpenCode needs a model as provider/model, not {name}");
            return Err(Error::new(Code::RuntimeStartFailed, message).remedy(NAME_ONE));
        };
        let Some(known) = providers.providers.iter().find(|known| known.id == provider) else {
            let message = format!("OpenCode is not connected to the provider {provider}");
            return Err(Error::new(Code::RuntimeNotLoggedIn, message).remedy(LOG_IN));
        };
        if !known.models.contains_key(model) {
            let message = format!("OpenCode's provider {provider} has no model {model}");
            return Err(Error::new(Code::RuntimeStartFailed, message).remedy(NAME_ONE));
        }
        Ok(Self { provider: provider.to_owned(), name: model.to_owned() })
    }

    /// Its full name.
    pub(super) fn full(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }

    /// As a prompt names it.
    pub(super) fn of_prompt(&self) -> Value {
        json!({"providerID": self.provider, "modelID": self.name})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(
        named: Option<&str>,
        config: &Value,
        providers: &Value,
    ) -> Result<String, (Code, String)> {
        let agent = Agent {
            name: "build".to_owned(),
            mode: "primary".to_owned(),
            hidden: None,
            permission: Vec::new(),
            model: None,
        };
        let providers = serde_json::from_value(providers.clone()).unwrap();
        Model::choose(named, &agent, config, &providers)
            .map(|model| model.full())
            .map_err(|error| (error.code(), error.message().to_owned()))
    }

    #[test]
    fn a_model_is_always_named_and_there() {
        let one = json!({"providers": [{"id": "p", "models": {"m": {}, "a/b": {}}}]});
        let none = json!({});
        assert_eq!(choose(None, &json!({"model": "p/m"}), &one), Ok("p/m".to_owned()));
        assert_eq!(choose(Some("p/a/b"), &json!({"model": "p/m"}), &one), Ok("p/a/b".to_owned()));
        for (named, providers, code) in [
            (None, &one, Code::RuntimeStartFailed),
            (Some("m"), &one, Code::RuntimeStartFailed),
            (Some("p/x"), &one, Code::RuntimeStartFailed),
            (Some("q/m"), &one, Code::RuntimeNotLoggedIn),
            (Some("p/m"), &none, Code::RuntimeNotLoggedIn),
        ] {
            let refused = choose(named, &json!({}), providers).unwrap_err();
            assert_eq!(refused.0, code, "{named:?}: {}", refused.1);
        }
    }
}
