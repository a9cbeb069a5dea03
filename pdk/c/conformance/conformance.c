// The conformance guest of the C kit: its tools reach every part of the ABI, and
// testdata/abi/calls.json says for each input what it must yield and return.
//
//     clang-19 --target=wasm32-wasi --sysroot=/usr -mexec-model=reactor -Oz -s -I pdk/c pdk/c/conformance/conformance.c -o c.wasm
//     bladehost build c.wasm -o testdata/wasm/conformance-c.wasm
#include "blade.h"

static const char manifest[] = BLADE_JSON({
  "abi": 1, "name": "blade-tool-conformance", "version": "1.0.0", "license": "Apache-2.0",
  "description": "Reaches every part of the ABI.",
  "tools": [
    {"name": "Echo", "description": "Returns its value.",
     "parameters": {"type": "object", "properties": {
       "value": {"description": "Any JSON."}
     }, "required": ["value"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []},
    {"name": "Explicit", "description": "Returns an explicit result.",
     "parameters": {"type": "object", "properties": {
       "model": {"description": "What the model reads."},
       "summary": {"type": "string", "description": "What a person reads."},
       "detail": {"description": "Detail of the display."},
       "data": {"description": "What the caller gets."},
       "metadata": {"type": "object", "description": "Metadata of the result.", "additionalProperties": {}}
     }, "required": ["model"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel"},
    {"name": "Fail", "description": "Returns an error.",
     "parameters": {"type": "object", "properties": {
       "message": {"type": "string", "description": "The error's message."},
       "type": {"type": "string", "description": "The error's type."},
       "code": {"type": "string", "description": "The error's code."},
       "details": {"description": "The error's details."}
     }, "required": ["message"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []},
    {"name": "Stream", "description": "Yields progress, a message and an effect.",
     "parameters": {"type": "object", "properties": {
       "steps": {"type": "integer", "description": "How many steps of progress.", "minimum": 0, "maximum": 1000}
     }, "required": ["steps"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "effects": ["contextPatch"]},
    {"name": "Service", "description": "Calls one service.",
     "parameters": {"type": "object", "properties": {
       "name": {"type": "string", "description": "The full name of the service."},
       "head": {"description": "The head of the request."},
       "body": {"type": "string", "description": "The bytes behind it."}
     }, "required": ["name"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "services": ["x-echo"], "yields": []},
    {"name": "Parallel", "description": "Calls the echo service many times at once.",
     "parameters": {"type": "object", "properties": {
       "calls": {"type": "integer", "description": "How many calls at once.", "minimum": 1, "maximum": 1000},
       "size": {"type": "integer", "description": "Bytes of each.", "minimum": 0, "maximum": 1048576}
     }, "required": ["calls", "size"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "services": ["x-echo"], "yields": []},
    {"name": "Context", "description": "Says what it knows about the call.",
     "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []},
    {"name": "Cancelled", "description": "Works or sleeps until it is cancelled.",
     "parameters": {"type": "object", "properties": {
       "sleep": {"type": "boolean", "description": "Sleep instead of working."}
     }, "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel"},
    {"name": "Deadline", "description": "Says whether there is a deadline.",
     "parameters": {"type": "object", "properties": {}, "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []},
    {"name": "Panic", "description": "Panics.",
     "parameters": {"type": "object", "properties": {
       "message": {"type": "string", "description": "What to panic with."}
     }, "required": ["message"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []},
    {"name": "Log", "description": "Logs lines.",
     "parameters": {"type": "object", "properties": {
       "lines": {"type": "array", "description": "What to log.", "items": {"type": "object", "properties": {"level": {"type": "integer", "description": "0 trace to 4 error."}, "text": {"type": "string", "description": "The line."}}, "required": ["level", "text"], "additionalProperties": false}}
     }, "required": ["lines"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []},
    {"name": "Large", "description": "Takes and returns a long text.",
     "parameters": {"type": "object", "properties": {
       "text": {"type": "string", "description": "A long text."},
       "count": {"type": "integer", "description": "Length of the answer's text.", "minimum": 0}
     }, "required": ["text", "count"], "additionalProperties": false},
     "kind": "readonly", "sideEffect": "pure", "interruptBehavior": "cancel", "yields": []}
  ]
});

static void echo(blade_json input) { blade_return_json(blade_get(input, "value")); }

static void explicit_(blade_json input) {
  blade_return_result((blade_result){
      .model = blade_get(input, "model"),
      .summary = blade_string(blade_get(input, "summary")),
      .detail = blade_get(input, "detail"),
      .data = blade_get(input, "data"),
      .metadata = blade_get(input, "metadata"),
  });
}

static void fail(blade_json input) {
  blade_fail_with(blade_string(blade_get(input, "type")), blade_string(blade_get(input, "code")),
                  blade_string(blade_get(input, "message")), blade_get(input, "details"));
}

// object is an object with one number.
static blade_buf object(const char *key, int64_t value) {
  blade_buf b = {0};
  blade_open(&b, '{');
  blade_key(&b, key);
  blade_int(&b, value);
  blade_close(&b, '}');
  return b;
}

// stream yields a progress for each step, then a message, then an effect.
static void stream(blade_json input) {
  int64_t steps = blade_to_int(blade_get(input, "steps"), 0);
  for (int64_t i = 1; i <= steps; i++) {
    blade_marker m = blade_mark();
    blade_buf text = {0};
    blade_putz(&text, "step ");
    blade_buf n = {0};
    blade_int(&n, i);
    blade_put(&text, n.p, n.n);
    blade_answer a = blade_progress(blade_cstr(blade_textn(text.p, text.n)), (double)i, (double)steps);
    blade_release(m);
    if (a == BLADE_STOP) {
      blade_stopped();
      return;
    }
  }
  blade_buf out = object("steps", steps);
  blade_json all = blade_textn(out.p, out.n);
  if (blade_message("all steps done", all) == BLADE_STOP || blade_context_patch(all) == BLADE_STOP) {
    blade_stopped();
    return;
  }
  blade_return(&out);
}

// service calls one service. A failure becomes an error with the host's code in
// lower case and the status in its details.
static void service(blade_json input) {
  blade_text name = blade_string(blade_get(input, "name"));
  blade_reply r = blade_call(blade_cstr(name), blade_get(input, "head"), blade_string(blade_get(input, "body")));
  if (r.status != BLADE_CALL_OK) {
    blade_buf details = object("status", r.status);
    blade_fail_with(blade_textz("execution_error"), blade_call_code(r), blade_textz("the service failed"), blade_textn(details.p, details.n));
    return;
  }
  blade_buf out = {0};
  blade_open(&out, '{');
  blade_key(&out, "head");
  blade_raw(&out, r.head);
  blade_key(&out, "body");
  blade_str(&out, r.body);
  blade_close(&out, '}');
  blade_return(&out);
}

#define AT_ONCE 16

// right says whether an answer is the one to call number i.
static bool right(blade_reply r, int64_t i, uint32_t size) {
  if (r.status != BLADE_CALL_OK || r.body.n != size || blade_to_int(blade_get(r.head, "n"), -1) != i) return false;
  for (uint32_t k = 0; k < size; k++)
    if ((unsigned char)r.body.p[k] != (unsigned char)i) return false;
  return true;
}

// parallel asks as often as the host keeps answers and takes them in the other
// order: each must get its own.
static void parallel(blade_json input) {
  int64_t calls = blade_to_int(blade_get(input, "calls"), 0), good = 0;
  uint32_t size = (uint32_t)blade_to_int(blade_get(input, "size"), 0);
  for (int64_t first = 0; first < calls; first += AT_ONCE) {
    blade_marker m = blade_mark();
    char *body = (char *)blade_alloc(size);
    blade_ticket open[AT_ONCE];
    int64_t n = calls - first < AT_ONCE ? calls - first : AT_ONCE;
    for (int64_t k = 0; k < n; k++) {
      for (uint32_t j = 0; j < size; j++) body[j] = (char)(first + k);
      blade_buf head = object("n", first + k);
      open[k] = blade_ask("x-echo.echo", blade_textn(head.p, head.n), blade_textn(body, size));
    }
    while (n-- > 0) {
      blade_marker one = blade_mark();
      good += right(blade_collect(open[n]), first + n, size);
      blade_release(one);
    }
    blade_release(m);
  }
  blade_buf out = {0};
  blade_open(&out, '{');
  blade_key(&out, "calls");
  blade_int(&out, calls);
  blade_key(&out, "right");
  blade_int(&out, good);
  blade_close(&out, '}');
  blade_return(&out);
}

// context says which parts of the call's context are there.
static void context(blade_json input) {
  (void)input;
  blade_reply r = blade_call("call.context", blade_textn(0, 0), blade_textn(0, 0));
  if (r.status != BLADE_CALL_OK) {
    blade_fail_call(r);
    return;
  }
  static const struct {
    const char *key, *member;
  } there[] = {{"session", "sessionId"}, {"call", "callId"}, {"mode", "permissionMode"}};
  blade_buf out = {0};
  blade_open(&out, '{');
  blade_key(&out, "tool");
  blade_raw(&out, blade_get(r.head, "tool"));
  for (int i = 0; i < 3; i++) {
    blade_key(&out, there[i].key);
    blade_bool(&out, blade_string(blade_get(r.head, there[i].member)).n > 0);
  }
  int64_t roots = 0;
  for (blade_iter it = blade_each(blade_get(r.head, "roots")); blade_next(&it);) roots++;
  blade_key(&out, "roots");
  blade_int(&out, roots);
  blade_close(&out, '}');
  blade_return(&out);
}

// cancelled yields once and then works, or sleeps, until it is told to stop.
static void cancelled(blade_json input) {
  if (blade_message("started", blade_textn(0, 0)) == BLADE_STOP) {
    blade_stopped();
    return;
  }
  bool sleep = blade_to_bool(blade_get(input, "sleep"));
  while (!blade_cancelled())
    if (sleep) blade_sleep(1000);
  blade_stopped();
}

// deadline says whether there is one that is still to come.
static void deadline(blade_json input) {
  (void)input;
  blade_buf out = {0};
  blade_open(&out, '{');
  blade_key(&out, "deadline");
  blade_bool(&out, blade_deadline() > 0);
  blade_close(&out, '}');
  blade_return(&out);
}

static void panics(blade_json input) { blade_panic(blade_string(blade_get(input, "message"))); }

static void logs(blade_json input) {
  for (blade_iter it = blade_each(blade_get(input, "lines")); blade_next(&it);)
    blade_log((int32_t)blade_to_int(blade_get(it.value, "level"), BLADE_INFO), blade_string(blade_get(it.value, "text")));
  blade_return_json(blade_textz("null"));
}

static void large(blade_json input) {
  blade_json text = blade_get(input, "text");
  int64_t count = blade_to_int(blade_get(input, "count"), -1);
  if (blade_kind_of(text) != BLADE_STRING || count < 0 || count > 0x3fffffff) {
    blade_invalid("bad_input", "text must be a string and count a number that is not negative");
    return;
  }
  blade_buf out = {0};
  blade_open(&out, '{');
  blade_key(&out, "received");
  blade_int(&out, blade_string(text).n);
  blade_key(&out, "text");
  char *x = (char *)blade_alloc((uint32_t)count);
  for (int64_t i = 0; i < count; i++) x[i] = 'x';
  blade_str(&out, blade_textn(x, (uint32_t)count));
  blade_close(&out, '}');
  blade_return(&out);
}

BLADE_PLUGIN(manifest, echo, explicit_, fail, stream, service, parallel, context, cancelled, deadline, panics, logs, large)
