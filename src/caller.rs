//! Who makes a call.

use serde::Serialize;

use crate::ids::short_digest;

/// The party behind a call, as authentication established it.
///
/// INVARIANT (caller): only transport/ (which authenticates) and cli/ (which is the operator) make one;
/// `tests/architecture.rs` holds the constructors there. Nothing in a request's body can.
#[derive(Debug, Clone, Serialize)]
pub struct Caller {
    name: String,
    roles: Vec<String>,
    transport: Transport,
    client: Option<String>,
}

/// The door through which a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// MCP over standard input and output: whoever started this process.
    Stdio,
    /// `kubepermit call`: the operator at a command line.
    Cli,
}

impl Caller {
    /// The caller of a stdio session. `client` is what the client says of itself: a label, never an identity.
    #[must_use]
    pub fn over_stdio(client: Option<String>) -> Self {
        Self { name: "local".to_owned(), roles: Vec::new(), transport: Transport::Stdio, client }
    }

    /// The operator at the command line.
    #[must_use]
    pub fn at_command_line() -> Self {
        Self { name: "local".to_owned(), roles: Vec::new(), transport: Transport::Cli, client: None }
    }

    /// The name that authentication gave.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The roles that authentication gave; a role may carry lists of its own in the policy's data.
    #[must_use]
    pub fn roles(&self) -> &[String] {
        &self.roles
    }

    /// The door through which the call came.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Stands for the caller where its name must not be (on a Job, in the name of a stored result): 32
    /// hexadecimal digits. A job in the background is bound to it, so it holds what authentication established
    /// and nothing else. Whoever starts the process is one and the same caller, over stdio or at a command
    /// line.
    #[must_use]
    pub fn digest(&self) -> String {
        let door = match self.transport {
            Transport::Stdio | Transport::Cli => "process",
        };
        short_digest("kubepermit.io/caller", &format!("{door}/{}", self.name))
    }

    /// What the client calls itself, unverified.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }
}
