//! The pages that a person's browser shows. They have no scripts and no forms: nothing is granted by a page.
//!
//! What strangers wrote is escaped here, by the five characters that mean something in HTML. A crate for that would be
//! no shorter than its use.

/// A client that waits.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    /// What it calls itself.
    pub name: &'a str,
    /// Where the document is that describes it, if one does.
    pub document_host: Option<String>,
    /// Where its answer goes.
    pub answer_host: String,
    /// Whether that is a program beside the browser.
    pub answers_here: bool,
    /// What the person types.
    pub code: &'a str,
}

/// A client that waits: its code, and how to answer it.
pub(super) fn waiting(asking: &Asking<'_>) -> String {
    let (client, host, code) =
        (escape(asking.name), escape(&asking.answer_host), escape(asking.code));
    let document = asking.document_host.as_deref().map(escape);
    let vouched = match document {
        None => "The name is its own; nobody checked it.".to_owned(),
        // What a document says holds for whoever has the address. On this host that is any program (MCP, authorization).
        Some(document) if asking.answers_here => format!(
            "It says that it is the client of <b>{document}</b>. Any program on the computer of this browser can say that."
        ),
        Some(document) => {
            format!("It is the client of <b>{document}</b>, which also gave it its name.")
        }
    };
    frame(
        "Cortex: a client asks",
        Some(2),
        &format!(
            "<h1>{client} wants to use Cortex</h1>\
             <p>Its answer goes to <b>{host}</b>. {vouched}</p>\
             <p>Only if you began this yourself, allow it on the machine that runs Cortex:</p>\
             <pre>cortex connection allow {code}</pre>\
             <p class=\"code\">{code}</p>\
             <p>It may then use the tools of Cortex as you may, until you revoke it. To deny it: \
             <code>cortex connection list</code>, then <code>cortex connection deny</code>. \
             This page looks again by itself.</p>"
        ),
    )
}

/// Something that a person reads, and nothing follows.
pub(super) fn told(title: &str, text: &str) -> String {
    let (title, text) = (escape(title), escape(text));
    frame(&title, None, &format!("<h1>{title}</h1><p>{text}</p>"))
}

/// A refusal that the person may take back to the client. The browser is not sent there by itself: a stranger chose the
/// address.
pub(super) fn way_back(title: &str, text: &str, host: &str, to: &str) -> String {
    let (title, text, host, to) = (escape(title), escape(text), escape(host), escape(to));
    let body = format!(
        "<h1>{title}</h1><p>{text}</p><p><a rel=\"noreferrer\" href=\"{to}\">Back to {host}</a></p>"
    );
    frame(&title, None, &body)
}

fn frame(title: &str, refresh_secs: Option<u8>, body: &str) -> String {
    let refresh = refresh_secs
        .map(|secs| format!("<meta http-equiv=\"refresh\" content=\"{secs}\">"))
        .unwrap_or_default();
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem;\
         overflow-wrap:anywhere;color-scheme:light dark}}.code{{font:2rem ui-monospace,monospace;letter-spacing:.1em}}</style>\
         </head><body>{body}</body></html>\n"
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_wrote_is_text() {
        let mut asking = asking("\"><b>");
        asking.name = "<script>alert('1')</script>";
        asking.document_host = Some("<i>".to_owned());
        let page = waiting(&asking);
        assert!(!page.contains("<script") && !page.contains("\"><b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;"));
        assert!(page.contains("<b>&lt;i&gt;</b>"), "{page}");
    }

    fn asking(answer_host: &str) -> Asking<'static> {
        Asking {
            name: "A",
            document_host: None,
            answer_host: answer_host.to_owned(),
            answers_here: false,
            code: "WDJB-MJHT",
        }
    }

    #[test]
    fn a_person_reads_who_vouches_for_a_client() {
        let mut client = asking("client.example");
        assert!(waiting(&client).contains("nobody checked it"));
        client.document_host = Some("client.example".to_owned());
        assert!(waiting(&client).contains("It is the client of <b>client.example</b>"));
        client.answers_here = true;
        assert!(waiting(&client).contains("Any program on the computer of this browser"));
    }
}
