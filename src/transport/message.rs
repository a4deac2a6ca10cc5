//! One line to one JSON-RPC message, or to the answer that it gets instead.

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, GetExtensions, JsonRpcMessage, JsonRpcNotification,
    RequestId, RequestMetaObject,
};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

use crate::refusal::Reason;
use crate::strict::{self, DuplicateKey};

/// Marks a `tools/call` whose arguments repeat a key. It travels with the request, so that the call is
/// refused as a tool result, which a model can read and mend.
#[derive(Debug, Clone)]
pub(super) struct RepeatedKey(pub(super) Reason);

/// What a line is.
pub(super) enum Incoming {
    /// A message for the service.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// Nothing that wants an answer.
    Nothing,
    /// Not a message; this is the answer, and why it is recorded.
    Fault(ErrorData, Option<RequestId>, Reason),
}

/// Whether a message begins a session: the handshake, or a request that names its protocol revision.
pub(super) fn begins(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
        || request
            .request
            .extensions()
            .get::<RequestMetaObject>()
            .is_some_and(|meta| meta.protocol_version().is_some())
}

/// The id of the request that a message takes back.
pub(super) fn taken_back(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Notification(JsonRpcNotification {
            notification: ClientNotification::CancelledNotification(cancelled),
            ..
        }) => cancelled.params.request_id.as_ref(),
        _ => None,
    }
}

/// Reads a line.
pub(super) fn read(line: &[u8]) -> Incoming {
    // RFC 8259, section 8.1: a byte order mark may be ignored.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    let repeated = match strict::duplicate_key(line) {
        Ok(repeated) => repeated,
        Err(error) => {
            let text = format!("the message is not JSON: {error}");
            return Incoming::Fault(ErrorData::parse_error(text.clone(), None), None, reason("parse", text));
        }
    };
    if let Some(DuplicateKey(pointer)) = &repeated
        && !pointer.starts_with("/params/arguments/")
    {
        return invalid(line, format!("the key at `{pointer}` is given twice; give it once"));
    }
    match serde_json::from_slice::<RxJsonRpcMessage<RoleServer>>(line) {
        Ok(mut message) => {
            if let Some(DuplicateKey(pointer)) = repeated {
                message.insert_extension(RepeatedKey(repeated_argument(&pointer)));
            }
            Incoming::Message(Box::new(message))
        }
        Err(_) if is_notification(line) => Incoming::Nothing,
        Err(_) => {
            invalid(line, "the message is not a JSON-RPC 2.0 request, notification or response".to_owned())
        }
    }
}

fn repeated_argument(pointer: &str) -> Reason {
    let field = pointer.strip_prefix("/params/arguments").unwrap_or(pointer);
    Reason::new(
        "schema.duplicate_key",
        "the key is given twice, so its value is ambiguous",
        field,
        "give it once",
    )
}

/// JSON, but not a message: -32600, with the id where one can be told.
fn invalid(line: &[u8], text: String) -> Incoming {
    let id = serde_json::from_slice::<Value>(line)
        .ok()
        .and_then(|message| serde_json::from_value(message.get("id")?.clone()).ok());
    Incoming::Fault(ErrorData::invalid_request(text.clone(), None), id, reason("invalid", text))
}

/// A method without an id: JSON-RPC forbids to answer it.
fn is_notification(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|message| {
        message.get("jsonrpc") == Some(&Value::from("2.0"))
            && message.get("id").is_none()
            && message.get("method").is_some_and(Value::is_string)
    })
}

fn reason(kind: &str, text: String) -> Reason {
    Reason::new(format!("message.{kind}"), text, "", "")
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    fn fault(line: &str) -> (i32, Option<RequestId>) {
        match read(line.as_bytes()) {
            Incoming::Fault(error, id, _) => (error.code.0, id),
            Incoming::Message(message) => panic!("{line} was read as {message:?}"),
            Incoming::Nothing => panic!("{line} was ignored"),
        }
    }

    /// The codes are JSON-RPC 2.0's, section 5.1.
    #[test]
    fn what_is_not_a_message_gets_the_code_of_the_specification() {
        for line in ["{", "nonsense", "\u{feff}{", "[1,", "{\"a\":\"\\ud800\"}", &"[".repeat(500)] {
            assert_eq!(fault(line), (ErrorCode::PARSE_ERROR.0, None), "{line:.30}");
        }
        for line in [
            "42",
            "[]",
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"id":null,"method":"ping"}"#,
        ] {
            assert_eq!(fault(line).0, ErrorCode::INVALID_REQUEST.0, "{line}");
        }
        let twice = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","method":"tools/call"}"#;
        assert_eq!(fault(twice), (ErrorCode::INVALID_REQUEST.0, Some(RequestId::Number(7))));
        let twice = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{},"name":"b"}}"#;
        assert_eq!(fault(twice).0, ErrorCode::INVALID_REQUEST.0);
    }

    #[test]
    fn a_repeated_argument_travels_with_its_request() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_job","arguments":{"env":{"A":"1","A":"2"}}}}"#;
        let Incoming::Message(message) = read(line.as_bytes()) else { panic!("not a message") };
        let rmcp::model::JsonRpcMessage::Request(request) = *message else { panic!("not a request") };
        let mark = rmcp::model::GetExtensions::extensions(&request.request).get::<RepeatedKey>().cloned();
        assert_eq!(mark.unwrap().0.field, "/env/A");
    }

    #[test]
    fn notifications_are_never_answered() {
        assert!(matches!(
            read(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#),
            Incoming::Nothing | Incoming::Message(_)
        ));
    }
}
