// A guest without a libc that takes JSON apart and writes it anew, to test the
// reader and the writer of the C kit.
#include "blade.h"

static const char manifest[] = BLADE_JSON({
  "abi": 1, "name": "blade-tool-json-rewrite", "version": "1.0.0", "description": "Writes JSON anew.",
  "tools": [{"name": "Rewrite", "description": "Reads its value and writes it anew.",
             "parameters": {"type": "object", "properties": {"value": {}}, "required": ["value"]},
             "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel"}]
});

static void rewrite(blade_buf *out, blade_json v) {
  switch (blade_kind_of(v)) {
  case BLADE_NONE:
  case BLADE_NULL: blade_null(out); break;
  case BLADE_BOOL: blade_bool(out, blade_to_bool(v)); break;
  case BLADE_STRING: blade_str(out, blade_string(v)); break;
  case BLADE_NUMBER: {
    int64_t n = blade_to_int(v, INT64_MIN);
    if (n != INT64_MIN)
      blade_int(out, n);
    else
      blade_num(out, blade_to_num(v, 0));
    break;
  }
  case BLADE_ARRAY:
    blade_open(out, '[');
    for (blade_iter it = blade_each(v); blade_next(&it);) rewrite(out, it.value);
    blade_close(out, ']');
    break;
  case BLADE_OBJECT:
    blade_open(out, '{');
    for (blade_iter it = blade_each(v); blade_next(&it);) {
      blade_str(out, blade_string(it.key));
      blade_put(out, ":", 1);
      rewrite(out, it.value);
    }
    blade_close(out, '}');
  }
}

static void tool(blade_json input) {
  blade_buf out = {0};
  rewrite(&out, blade_get(input, "value"));
  blade_return(&out);
}

BLADE_PLUGIN(manifest, tool)
