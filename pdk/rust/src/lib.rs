//! The kit for bladehost plugins in Rust: no dependencies, Rust 1.63 or newer.
//!
//! ```
//! use blade::{object, Call, Context, Error, Explicit, Json, Plugin, Tool};
//!
//! blade::input! {
//!     struct GreetIn {
//!         /// Who to greet.
//!         name: String,
//!     }
//! }
//!
//! // A plain tool returns data.
//! fn greet(input: GreetIn, _: &Context) -> Result<Json, Error> {
//!     if input.name.is_empty() {
//!         return Err(Error::invalid("no_name", "name is empty: say who to greet"));
//!     }
//!     Ok(object! {"greeting": format!("Hello, {}", input.name)})
//! }
//!
//! // A streaming tool may also yield, and return a result with several parts.
//! fn wave(input: GreetIn, call: &Call) -> Result<Explicit, Error> {
//!     call.progress("waving", 1.0, Some(2.0))?;
//!     Ok(Explicit::model("waved").display(&format!("waved to {}", input.name), None))
//! }
//!
//! fn plugin() -> Plugin {
//!     Plugin::new("blade-tool-greet", "0.1.0", "Greets.")
//!         .tool(Tool::define("Greet", "Greets somebody.", greet).read_only().pure().interruptible())
//!         .tool(Tool::stream("Wave", "Waves.", wave).read_only().pure().interruptible())
//! }
//!
//! blade::export!(plugin);
//! ```
//!
//! A plugin is a `cdylib` for wasm32-unknown-unknown; docs/guests.md of bladehost
//! has the recipe. The contract itself is abi/SPEC.md there.

mod call;
mod error;
mod host;
mod input;
mod json;
mod plugin;

pub use call::{Call, Context, Level, Reply, ServiceError, Ticket};
pub use error::{Error, Kind};
pub use input::{Field, Within};
pub use json::{Json, ParseError};
pub use plugin::{Explicit, Output, Plugin, Tool};

/// What the macros need.
#[doc(hidden)]
pub mod private {
    pub use crate::input::{member, no_members, Members};
    pub use crate::json::members_of;
    pub use crate::plugin::{describe, execute};
}

/// Writes a line into the host's log. 0 is trace, 4 error; any other number is
/// info.
pub fn log_level(level: i32, text: &str) {
    host::log(level, text)
}
