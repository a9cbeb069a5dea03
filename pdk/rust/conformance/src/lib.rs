//! The conformance guest of the Rust kit: its tools reach every part of the ABI,
//! and testdata/abi/calls.json says for each input what it must yield and return.

use blade::{object, Call, Context, Error, Explicit, Json, Kind, Plugin, Tool, Within};
use std::time::Duration;

blade::input! {
    struct EchoIn {
        /// Any JSON.
        value: Json,
    }
}

fn echo(input: EchoIn, _: &Context) -> Result<Json, Error> {
    Ok(input.value)
}

blade::input! {
    struct ExplicitIn {
        /// What the model reads.
        model: Json,
        /// What a person reads.
        summary: Option<String>,
        /// Detail of the display.
        detail: Option<Json>,
        /// What the caller gets.
        data: Option<Json>,
        /// Metadata of the result.
        metadata: Option<Json>,
    }
}

fn explicit(input: ExplicitIn, _: &Call) -> Result<Explicit, Error> {
    let mut r = Explicit::model(input.model);
    if let Some(s) = input.summary {
        r = r.display(&s, input.detail);
    }
    if let Some(d) = input.data {
        r = r.data(d);
    }
    if let Some(m) = input.metadata {
        r = r.metadata(m);
    }
    Ok(r)
}

blade::input! {
    struct FailIn {
        /// The error's message.
        message: String,
        /// The error's type.
        r#type: Option<String>,
        /// The error's code.
        code: Option<String>,
        /// The error's details.
        details: Option<Json>,
    }
}

fn fail(input: FailIn, _: &Context) -> Result<Json, Error> {
    Err(Error {
        message: input.message,
        kind: Kind::of(&input.r#type.unwrap_or_default()),
        code: input.code.unwrap_or_default(),
        details: input.details,
    })
}

blade::input! {
    struct StreamIn {
        /// How many steps of progress.
        steps: Within<0, 1000>,
    }
}

/// Yields a progress for each step, then a message, then an effect.
fn stream(input: StreamIn, call: &Call) -> Result<Json, Error> {
    let steps = input.steps.0;
    for i in 1..=steps {
        call.progress(&format!("step {}", i), i as f64, Some(steps as f64))?;
    }
    let all = object! {"steps": steps};
    call.message("all steps done", Some(all.clone()))?;
    call.context_patch(all.clone())?;
    Ok(all)
}

blade::input! {
    struct ServiceIn {
        /// The full name of the service.
        name: String,
        /// The head of the request.
        head: Option<Json>,
        /// The bytes behind it.
        body: Option<String>,
    }
}

/// Calls one service. A failure becomes an error with the host's code in lower
/// case and the status in its details.
fn service(input: ServiceIn, ctx: &Context) -> Result<Json, Error> {
    let head = input.head.unwrap_or(Json::Obj(vec![]));
    match ctx.service(&input.name, &head, input.body.unwrap_or_default().as_bytes()) {
        Ok(r) => Ok(object! {"head": r.head, "body": String::from_utf8_lossy(&r.body).into_owned()}),
        Err(e) => Err(Error::new(&e.error.code, "the service failed").with(object! {"status": u32::from(e.status)})),
    }
}

blade::input! {
    struct ParallelIn {
        /// How many calls at once.
        calls: Within<1, 1000>,
        /// Bytes of each.
        size: Within<0, 1048576>,
    }
}

/// Asks as often as the host keeps answers and takes them in the other order: each
/// must get its own.
fn parallel(input: ParallelIn, ctx: &Context) -> Result<Json, Error> {
    let (calls, size) = (input.calls.0, input.size.0 as usize);
    let numbers: Vec<i64> = (0..calls).collect();
    let mut right = 0;
    for batch in numbers.chunks(16) {
        let asked: Vec<_> = batch.iter().map(|&n| (n, ctx.ask("x-echo.echo", &object! {"n": n}, &vec![n as u8; size]))).collect();
        for (n, ticket) in asked.into_iter().rev() {
            let reply = ticket.collect()?;
            right += i64::from(reply.head == object! {"n": n} && reply.body.len() == size && reply.body.iter().all(|&b| b == n as u8));
        }
    }
    Ok(object! {"calls": calls, "right": right})
}

blade::input! {
    struct None {}
}

/// Says which parts of the call's context are there.
fn context(_: None, ctx: &Context) -> Result<Json, Error> {
    let info = ctx.info()?;
    let there = |key| info.get(key).and_then(Json::as_str).map_or(false, |s| !s.is_empty());
    Ok(object! {
        "tool": info.get("tool").cloned(), "session": there("sessionId"), "call": there("callId"), "mode": there("permissionMode"),
        "roots": info.get("roots").and_then(Json::as_array).map_or(0, |a| a.len()),
    })
}

blade::input! {
    struct CancelledIn {
        /// Sleep instead of working.
        sleep: Option<bool>,
    }
}

/// Yields once and then works, or sleeps, until it is told to stop.
fn cancelled(input: CancelledIn, call: &Call) -> Result<Json, Error> {
    call.message("started", Option::None)?;
    loop {
        call.check()?;
        if input.sleep == Some(true) {
            call.sleep(Duration::from_secs(1));
        }
    }
}

/// Says whether there is a deadline that is still to come.
fn deadline(_: None, ctx: &Context) -> Result<Json, Error> {
    Ok(object! {"deadline": ctx.deadline().map_or(false, |d| d > Duration::ZERO)})
}

blade::input! {
    struct PanicIn {
        /// What to panic with.
        message: String,
    }
}

fn panics(input: PanicIn, _: &Context) -> Result<Json, Error> {
    panic!("{}", input.message)
}

blade::input! {
    struct Line {
        /// 0 trace to 4 error.
        level: i32,
        /// The line.
        text: String,
    }
}

blade::input! {
    struct LogIn {
        /// What to log.
        lines: Vec<Line>,
    }
}

fn logs(input: LogIn, _: &Context) -> Result<(), Error> {
    for l in input.lines {
        blade::log_level(l.level, &l.text);
    }
    Ok(())
}

blade::input! {
    struct LargeIn {
        /// A long text.
        text: String,
        /// Length of the answer's text.
        count: u32,
    }
}

fn large(input: LargeIn, _: &Context) -> Result<Json, Error> {
    Ok(object! {"received": input.text.len(), "text": "x".repeat(input.count as usize)})
}

fn harmless(t: Tool) -> Tool {
    t.read_only().pure().interruptible()
}

fn plugin() -> Plugin {
    Plugin::new("blade-tool-conformance", "1.0.0", "Reaches every part of the ABI.")
        .set("license", "Apache-2.0")
        .tool(harmless(Tool::define("Echo", "Returns its value.", echo)))
        .tool(harmless(Tool::stream("Explicit", "Returns an explicit result.", explicit)))
        .tool(harmless(Tool::define("Fail", "Returns an error.", fail)))
        .tool(harmless(Tool::stream("Stream", "Yields progress, a message and an effect.", stream)).effects(&["contextPatch"]))
        .tool(harmless(Tool::define("Service", "Calls one service.", service)).services(&["x-echo"]))
        .tool(harmless(Tool::define("Parallel", "Calls the echo service many times at once.", parallel)).services(&["x-echo"]))
        .tool(harmless(Tool::define("Context", "Says what it knows about the call.", context)))
        .tool(harmless(Tool::stream("Cancelled", "Works or sleeps until it is cancelled.", cancelled)))
        .tool(harmless(Tool::define("Deadline", "Says whether there is a deadline.", deadline)))
        .tool(harmless(Tool::define("Panic", "Panics.", panics)))
        .tool(harmless(Tool::define("Log", "Logs lines.", logs)))
        .tool(harmless(Tool::define("Large", "Takes and returns a long text.", large)))
}

blade::export!(plugin);
