use crate::{host, object, Error, Json, Kind};
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// Levels of the host's log, which the model never reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// What every tool knows about its call. It cannot yield: see [`Call`].
pub struct Context {
    pub(crate) _private: (),
}

impl Context {
    /// Why the call should stop: 1 the request was cancelled, 2 a new input
    /// interrupted it, 3 the deadline passed, 4 the host shuts down, 5 the lease
    /// was lost, 6 nobody reads the yields. Then release what you hold and return
    /// soon; `Error::stopped` is a good result.
    pub fn cancelled(&self) -> Option<i32> {
        Some(host::cancelled()).filter(|&r| r != 0)
    }

    /// An error if the call should stop, for loops: `call.check()?`.
    pub fn check(&self) -> Result<(), Error> {
        self.cancelled().map_or(Ok(()), |r| Err(Error::stopped(r)))
    }

    /// How much time is left; None for no deadline. A host may move it.
    pub fn deadline(&self) -> Option<Duration> {
        u64::try_from(host::deadline()).ok().map(Duration::from_millis)
    }

    pub fn log(&self, level: Level, text: &str) {
        host::log(level as i32, text)
    }

    /// Waits, until the call should stop at the latest. (`std::thread::sleep`
    /// panics on wasm32-unknown-unknown.)
    pub fn sleep(&self, d: Duration) {
        host::sleep(d.as_nanos().min(u64::MAX.into()) as u64)
    }

    /// Fills b from the system's generator. Anything else that is random repeats
    /// in every call.
    pub fn random(&self, b: &mut [u8]) {
        assert!(host::random(b), "the host has no random numbers");
    }

    /// What the host says about the call: ids, cwd, roots, mode (see `call.context`
    /// in abi/SPEC.md).
    pub fn info(&self) -> Result<Json, Error> {
        Ok(self.service("call.context", &Json::Obj(vec![]), &[])?.head)
    }

    /// Asks a service and waits for the answer. The head is an object.
    pub fn service(&self, name: &str, head: &Json, body: &[u8]) -> Result<Reply, ServiceError> {
        self.ask(name, head, body).collect()
    }

    /// Sends a request whose answer stays with the host, which keeps 16 of them,
    /// until it is collected.
    pub fn ask(&self, name: &str, head: &Json, body: &[u8]) -> Ticket {
        let head = head.to_string();
        let mut frame = Vec::with_capacity(4 + head.len() + body.len());
        frame.extend_from_slice(&(head.len() as u32).to_le_bytes());
        frame.extend_from_slice(head.as_bytes());
        frame.extend_from_slice(body);
        let (status, slot, length) = host::call(name, &frame);
        Ticket { service: name.to_string(), status, slot, length }
    }
}

/// The call of a streaming tool: it sends yields, which arrive in order and
/// before the result. Sending waits while the reader is behind.
pub struct Call {
    pub(crate) context: Context,
}

impl Deref for Call {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl Call {
    /// Says how far the tool is, in a unit of its choice. The host may drop a
    /// progress that another one overtakes.
    pub fn progress(&self, message: &str, completed: f64, total: Option<f64>) -> Result<(), Error> {
        let mut y = object! {"kind": "progress", "message": message, "completed": completed};
        if let Some(t) = total {
            y.set("total", t);
        }
        self.send(&y)
    }

    /// Shows a person something. The model never reads it.
    pub fn message(&self, summary: &str, detail: Option<Json>) -> Result<(), Error> {
        let mut content = object! {"summary": summary};
        if let Some(d) = detail {
            content.set("detail", d);
        }
        self.send(&object! {"kind": "message", "content": content})
    }

    /// Asks the session for a change: an object with a type that the tool declared.
    pub fn effect(&self, effect: Json) -> Result<(), Error> {
        self.send(&object! {"kind": "effect", "effect": effect})
    }

    /// Asks for members to be set in the session's context.
    pub fn context_patch(&self, metadata: Json) -> Result<(), Error> {
        self.effect(object! {"type": "contextPatch", "patch": object! {"metadata": metadata}})
    }

    /// Sends any yield. The error is `Error::stopped` when the call should stop.
    /// The others may be ignored: the call goes on.
    pub fn send(&self, yielded: &Json) -> Result<(), Error> {
        match host::send(&yielded.to_string()) {
            0 => Ok(()),
            1 => Err(Error::stopped(host::cancelled().max(1))),
            3 => Err(Error::new("yield_limit", "the yield is over a limit: at most 64 KiB each, 1,000 messages and effects and 4 MiB of them a call")),
            _ => Err(Error::new("yield_rejected", "the host rejected the yield: its shape is wrong or the tool did not declare it")),
        }
    }
}

/// The answer of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub head: Json,
    pub body: Vec<u8>,
}

/// An answer that is still with the host. Without `collect` it is dropped at the
/// end of the call.
pub struct Ticket {
    service: String,
    status: u16,
    slot: u32,
    length: usize,
}

impl Ticket {
    /// Takes the answer.
    pub fn collect(self) -> Result<Reply, ServiceError> {
        let mut frame = Vec::new();
        if self.slot != 0 {
            frame = host::take(self.slot, self.length);
            host::drop_slot(self.slot);
        }
        let reply = split(frame);
        if self.status == 0 {
            return reply.map_err(|why| ServiceError { service: self.service, status: 7, error: Error::new("service_failed", why) });
        }
        let head = reply.map(|r| r.head).unwrap_or(Json::Null);
        Err(ServiceError { service: self.service, status: self.status, error: failure(self.status, &head) })
    }
}

fn split(mut frame: Vec<u8>) -> Result<Reply, String> {
    if frame.len() < 4 {
        return Ok(Reply { head: Json::Obj(vec![]), body: vec![] });
    }
    let n = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
    if n > frame.len() - 4 {
        return Err("the answer of the host is no frame".to_string());
    }
    let body = frame.split_off(4 + n);
    let head = if n == 0 { Json::Obj(vec![]) } else { Json::parse(&frame[4..]).map_err(|e| format!("the answer of the host: {}", e))? };
    Ok(Reply { head, body })
}

fn failure(status: u16, head: &Json) -> Error {
    const CODES: [&str; 8] = ["", "cancelled", "unknown_service", "not_declared", "not_granted", "invalid_request", "service_limit", "service_failed"];
    let text = |key| head.get(key).and_then(Json::as_str);
    let code = CODES[usize::from(status.min(7))];
    let message = text("message").unwrap_or("the service failed");
    Error {
        message: message.to_string(),
        kind: Kind::of(text("type").unwrap_or("")),
        code: text("code").map_or(code.to_string(), str::to_ascii_lowercase),
        details: head.get("details").cloned(),
    }
}

/// Why a service call failed. It becomes an [`Error`] with `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceError {
    pub service: String,
    /// 1 cancelled, 2 unknown, 3 not declared, 4 not granted, 5 invalid, 6 over a
    /// limit, 7 failed.
    pub status: u16,
    /// The host's error, its code in lower case.
    pub error: Error,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.service, self.error)
    }
}

impl std::error::Error for ServiceError {}

impl From<ServiceError> for Error {
    fn from(e: ServiceError) -> Error {
        Error { message: e.to_string(), ..e.error }
    }
}
