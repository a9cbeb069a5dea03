use crate::{host, object, Call, Context, Error, Field, Json};
use std::sync::atomic::{AtomicU8, Ordering};

/// The most that a result may have, in bytes.
const MAX_RESULT: usize = 16 << 20;

/// What a tool returns: data (any JSON, for model and caller) or an [`Explicit`]
/// result.
pub enum Output {
    Data(Json),
    Explicit(Explicit),
}

impl From<Json> for Output {
    fn from(v: Json) -> Output {
        Output::Data(v)
    }
}

impl From<Explicit> for Output {
    fn from(e: Explicit) -> Output {
        Output::Explicit(e)
    }
}

/// A result whose parts differ for model, person and program.
pub struct Explicit(Json);

impl Explicit {
    /// What the model reads: a string as it is, other JSON as JSON.
    pub fn model(model: impl Into<Json>) -> Explicit {
        Explicit(object! {"model": model.into()})
    }

    /// What a person sees.
    pub fn display(mut self, summary: &str, detail: Option<Json>) -> Explicit {
        let mut d = object! {"summary": summary};
        if let Some(detail) = detail {
            d.set("detail", detail);
        }
        self.0.set("display", d);
        self
    }

    /// What the calling program gets.
    pub fn data(mut self, data: impl Into<Json>) -> Explicit {
        self.0.set("data", data);
        self
    }

    /// An object. A host keeps the keys `summary` and those that start with `x-`.
    pub fn metadata(mut self, metadata: Json) -> Explicit {
        self.0.set("metadata", metadata);
        self
    }
}

type Run = Box<dyn Fn(Json, &Call) -> Result<Output, Error>>;

/// One tool: its definition and the function behind it.
pub struct Tool {
    name: &'static str,
    head: Json,
    schema: fn() -> Json,
    tail: Json,
    run: Run,
}

impl Tool {
    /// A tool that returns data and sends no yields.
    pub fn define<I, O, F>(name: &'static str, description: &str, f: F) -> Tool
    where
        I: Field,
        O: Into<Json>,
        F: Fn(I, &Context) -> Result<O, Error> + 'static,
    {
        let run = move |v, call: &Call| Ok(Output::Data(f(read(v)?, call)?.into()));
        Tool::made(name, description, I::schema, Box::new(run)).yields(&[])
    }

    /// A tool that may send yields and return an explicit result.
    pub fn stream<I, O, F>(name: &'static str, description: &str, f: F) -> Tool
    where
        I: Field,
        O: Into<Output>,
        F: Fn(I, &Call) -> Result<O, Error> + 'static,
    {
        let run = move |v, call: &Call| Ok(f(read(v)?, call)?.into());
        Tool::made(name, description, I::schema, Box::new(run))
    }

    fn made(name: &'static str, description: &str, schema: fn() -> Json, run: Run) -> Tool {
        Tool { name, head: object! {"name": name, "description": description}, schema, tail: object! {}, run }
    }

    /// The tool changes nothing. It may be called beside others.
    pub fn read_only(self) -> Tool {
        self.set("kind", "readonly")
    }

    /// The tool changes files or other state.
    pub fn writes(self) -> Tool {
        self.set("kind", "write")
    }

    /// The tool runs commands or does what is neither. That is the default.
    pub fn executes(self) -> Tool {
        self.set("kind", "execute")
    }

    /// A call has no effect outside.
    pub fn pure(self) -> Tool {
        self.set("sideEffect", "pure")
    }

    /// A second call has no further effect.
    pub fn idempotent(self) -> Tool {
        self.set("sideEffect", "idempotent")
    }

    /// A new input of the user stops the call. Without it the input waits.
    pub fn interruptible(self) -> Tool {
        self.set("interruptBehavior", "cancel")
    }

    /// The services the tool asks for: of the session, or x- ones.
    pub fn services(self, names: &[&str]) -> Tool {
        self.set("services", names.to_vec())
    }

    /// The kinds of yields: progress, message, effect. A streaming tool that does
    /// not say has progress and message, and effect where it declares effects.
    pub fn yields(self, kinds: &[&str]) -> Tool {
        self.set("yields", names(kinds))
    }

    /// The types of effects.
    pub fn effects(self, types: &[&str]) -> Tool {
        self.set("effects", names(types))
    }

    /// Any other member of the tool in the manifest (abi/SPEC.md, section 10), such
    /// as outputSchema, pathParams or timeoutMs.
    pub fn set(mut self, member: &str, value: impl Into<Json>) -> Tool {
        self.tail.set(member, value);
        self
    }

    fn manifest(&self) -> Json {
        let mut t = self.head.clone();
        t.set("parameters", (self.schema)());
        if let Json::Obj(m) = &self.tail {
            for (k, v) in m {
                t.set(k, v.clone());
            }
        }
        t
    }
}

fn names(list: &[&str]) -> Json {
    Json::Arr(list.iter().map(|&n| n.into()).collect())
}

fn read<I: Field>(v: Json) -> Result<I, Error> {
    I::read(v).map_err(|why| Error::invalid("bad_input", why))
}

/// A plugin: what its manifest says, and its tools.
pub struct Plugin {
    manifest: Json,
    tools: Vec<Tool>,
}

impl Plugin {
    pub fn new(name: &str, version: &str, description: &str) -> Plugin {
        Plugin { manifest: object! {"abi": 1, "name": name, "version": version, "description": description}, tools: Vec::new() }
    }

    /// Any other member of the manifest: license, homepage, config, capabilities.
    pub fn set(mut self, member: &str, value: impl Into<Json>) -> Plugin {
        self.manifest.set(member, value);
        self
    }

    pub fn tool(mut self, t: Tool) -> Plugin {
        self.tools.push(t);
        self
    }

    /// The manifest as blade_describe answers it.
    pub fn manifest(&self) -> Json {
        let mut m = self.manifest.clone();
        m.set("tools", self.tools.iter().map(Tool::manifest).collect::<Vec<_>>());
        m
    }
}

/// blade_describe.
pub fn describe(plugin: fn() -> Plugin) {
    watch_panics();
    host::ret(0, &plugin().manifest().to_string());
}

/// blade_execute.
pub fn execute(plugin: fn() -> Plugin, tool: u32, len: u32) {
    watch_panics();
    PHASE.store(RUNNING, Ordering::Relaxed);
    let input = host::take(0, len as usize);
    match run(plugin(), tool as usize, input) {
        Ok(Output::Data(v)) => ret(0, &v),
        Ok(Output::Explicit(e)) => ret(1, &e.0),
        Err(e) => ret(2, &e.to_json()),
    }
}

fn run(plugin: Plugin, tool: usize, input: Vec<u8>) -> Result<Output, Error> {
    let t = plugin.tools.get(tool).ok_or_else(|| Error::invalid("no_such_tool", format!("the plugin has {} tools, number {} is not one of them", plugin.tools.len(), tool)))?;
    let value = Json::parse(&input).map_err(|e| Error::invalid("bad_input", format!("the input of {}: {}", t.name, e)))?;
    drop(input);
    (t.run)(value, &Call { context: Context { _private: () } })
}

fn ret(status: i32, value: &Json) {
    let text = value.to_string();
    PHASE.store(DONE, Ordering::Relaxed);
    if text.len() <= MAX_RESULT {
        return host::ret(status, &text);
    }
    let e = Error::new("result_too_large", format!("the tool's result has {} bytes, at most {} are allowed: return less, or put the bytes into an artifact", text.len(), MAX_RESULT));
    host::ret(2, &e.to_json().to_string())
}

const RUNNING: u8 = 1;
const DONE: u8 = 2;
static PHASE: AtomicU8 = AtomicU8::new(0);

/// A panic is logged. In a tool it becomes an error result with the code panic:
/// the program cannot unwind, so it hands the error over and waits until the host
/// ends it, which it does 250 ms later and without touching the result. (A trap
/// would replace the result.)
fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let p = info.payload();
        let text = p.downcast_ref::<&str>().copied().or_else(|| p.downcast_ref::<String>().map(|s| s.as_str())).unwrap_or("without a message");
        let at = info.location().map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
        host::log(4, &format!("panic: {}{}", text, at));
        if PHASE.swap(DONE, Ordering::Relaxed) == RUNNING && cfg!(target_arch = "wasm32") {
            let e = Error::new("panic", format!("the tool panicked: {}", text));
            host::ret(2, &e.to_json().to_string());
            loop {
                std::hint::spin_loop();
            }
        }
    }));
}

/// Makes the entry points of the module. It stands once in a plugin, and takes the
/// function that makes the [`Plugin`].
#[macro_export]
macro_rules! export {
    ($plugin:path) => {
        #[no_mangle]
        pub extern "C" fn blade_describe() {
            $crate::private::describe($plugin)
        }

        #[no_mangle]
        pub extern "C" fn blade_execute(tool: u32, len: u32) {
            $crate::private::execute($plugin, tool, len)
        }

        // The linker makes a cdylib without _initialize run the constructors around
        // every export. With it they run once. (On wasm32-unknown-unknown there are none.)
        #[cfg(target_os = "wasi")]
        #[no_mangle]
        pub extern "C" fn _initialize() {
            extern "C" {
                fn __wasm_call_ctors();
            }
            unsafe { __wasm_call_ctors() }
        }
    };
}
