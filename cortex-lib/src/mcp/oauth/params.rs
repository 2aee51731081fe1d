//! The parameters of a request, from a query or a form.

use std::collections::BTreeMap;

use url::form_urlencoded;

use super::answer::Denial;

/// Parameters by name. None comes twice (RFC 6749, 3.1).
#[derive(Debug)]
pub(super) struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads `application/x-www-form-urlencoded`. A parameter without a value is as if it were left out (RFC 6749, 3.1).
    pub(super) fn parse(text: &[u8]) -> Result<Self, Denial> {
        let mut params = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text).filter(|(_, value)| !value.is_empty()) {
            if params.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Denial::request(format!("{name} comes twice")));
            }
        }
        Ok(Self(params))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn need(&self, name: &str) -> Result<&str, Denial> {
        self.get(name).ok_or_else(|| Denial::request(format!("{name} is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_once() {
        let params = Params::parse(b"a=1&b=%20x+y&c=&c=").unwrap();
        assert_eq!(
            (params.get("a"), params.get("b"), params.get("c")),
            (Some("1"), Some(" x y"), None)
        );
        assert_eq!(params.need("c").unwrap_err().description, "c is missing");
        assert_eq!(Params::parse(b"a=1&a=1").unwrap_err().code, "invalid_request");
    }
}
