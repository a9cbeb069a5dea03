//! A guest that takes JSON apart and writes it anew, to test the JSON of the kit.

use blade::{Context, Error, Json, Plugin, Tool};

blade::input! {
    struct RewriteIn {
        value: Json,
    }
}

fn rewrite(input: RewriteIn, _: &Context) -> Result<Json, Error> {
    Ok(input.value)
}

fn plugin() -> Plugin {
    Plugin::new("blade-tool-json-rewrite", "1.0.0", "Writes JSON anew.")
        .tool(Tool::define("Rewrite", "Reads its value and writes it anew.", rewrite).read_only().pure().interruptible())
}

blade::export!(plugin);
