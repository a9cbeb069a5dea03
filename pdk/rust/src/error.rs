use crate::{object, Json};
use std::fmt;

/// What kind of failure an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Another input would help.
    Validation,
    Execution,
    Network,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Validation => "validation_error",
            Kind::Execution => "execution_error",
            Kind::Network => "network_error",
        }
    }

    /// The kind of this name; any other is an execution error.
    pub fn of(name: &str) -> Kind {
        match name {
            "validation_error" => Kind::Validation,
            "network_error" => Kind::Network,
            _ => Kind::Execution,
        }
    }
}

/// A failure that a tool reports. The model reads the message: say what is wrong
/// and what would help. Programs decide on the code, which is a lower-case letter
/// and then lower-case letters, digits and underscores; any other is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub message: String,
    pub kind: Kind,
    pub code: String,
    pub details: Option<Json>,
}

impl Error {
    pub fn new(code: &str, message: impl Into<String>) -> Error {
        Error { message: message.into(), kind: Kind::Execution, code: code.to_string(), details: None }
    }

    /// A validation error: another input would help.
    pub fn invalid(code: &str, message: impl Into<String>) -> Error {
        Error::new(code, message).kind(Kind::Validation)
    }

    /// The error of a call that stops as it was told to.
    #[inline(never)]
    pub fn stopped(reason: i32) -> Error {
        Error::new("cancelled", "stopped as told").with(object! {"reason": reason})
    }

    pub fn kind(mut self, kind: Kind) -> Error {
        self.kind = kind;
        self
    }

    pub fn with(mut self, details: impl Into<Json>) -> Error {
        self.details = Some(details.into());
        self
    }

    /// The error as `ret` takes it.
    #[inline(never)]
    pub fn to_json(&self) -> Json {
        let message = if self.message.is_empty() { "the tool failed without a message" } else { &self.message };
        let mut e = object! {"message": message, "type": self.kind.name()};
        if valid_code(&self.code) {
            e.set("code", self.code.as_str());
        }
        if let Some(d) = &self.details {
            e.set("details", d.clone());
        }
        e
    }
}

fn valid_code(c: &str) -> bool {
    c.len() <= 64
        && c.starts_with(|c: char| c.is_ascii_lowercase())
        && c.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<&str> for Error {
    fn from(message: &str) -> Error {
        Error::new("", message)
    }
}

impl From<String> for Error {
    fn from(message: String) -> Error {
        Error::new("", message)
    }
}

impl From<crate::ParseError> for Error {
    fn from(e: crate::ParseError) -> Error {
        Error::new("bad_json", e.to_string())
    }
}
