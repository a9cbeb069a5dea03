// The functions of blade_v1 for AssemblyScript, and what its strings need: they
// are UTF-16, the contract is UTF-8. The entry file must export bladeAbort again,
// and the compiler be called with --use abort=blade/bladeAbort.

@external("blade_v1", "take") declare function hostTake(slot: u32, ptr: usize, cap: u32): u32;
@external("blade_v1", "yield") declare function hostYield(ptr: usize, len: u32): i32;
@external("blade_v1", "ret") declare function hostRet(status: i32, ptr: usize, len: u32): void;
@external("blade_v1", "log") declare function hostLog(level: i32, ptr: usize, len: u32): void;
@external("blade_v1", "cancelled") declare function hostCancelled(): i32;

// Whether the call has its result, or no call runs.
let done = true;

// take is the input of the call.
export function take(len: u32): string {
  done = false;
  const buf = new ArrayBuffer(len);
  const at = changetype<usize>(buf);
  let n: u32 = 0;
  while (n < len) {
    const k = hostTake(0, at + n, len - n);
    if (!k) break;
    n += k;
  }
  return String.UTF8.decodeUnsafe(at, n);
}

// ret hands over the result: status 0 data, 1 an explicit result, 2 an error.
export function ret(status: i32, json: string): void {
  done = true;
  const b = String.UTF8.encode(json);
  hostRet(status, changetype<usize>(b), b.byteLength);
}

// send sends a yield. Not 0: not delivered; 1 says that the call should stop.
export function send(json: string): i32 {
  const b = String.UTF8.encode(json);
  return hostYield(changetype<usize>(b), b.byteLength);
}

export function log(level: i32, text: string): void {
  const b = String.UTF8.encode(text);
  hostLog(level, changetype<usize>(b), b.byteLength);
}

export function cancelled(): i32 {
  return hostCancelled();
}

// quote is a text as a JSON string.
export function quote(s: string): string {
  let out = '"';
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c == 0x22 || c == 0x5c) out += "\\" + s.charAt(i);
    else if (c < 0x20) out += "\\u00" + (c < 0x10 ? "0" : "1") + "0123456789abcdef".charAt(c & 15);
    else out += s.charAt(i);
  }
  return out + '"';
}

// bladeAbort is what a throw and a failed assertion come to. In a call it hands
// over an error and waits until the host ends it, 250 ms later: AssemblyScript
// cannot unwind, and a trap would replace the result.
export function bladeAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  const text = message ? message : "without a message";
  log(4, "abort: " + text + " at " + (file ? file : "?") + ":" + line.toString() + ":" + column.toString());
  if (done) return;
  ret(2, '{"message":' + quote("the tool panicked: " + text) + ',"type":"execution_error","code":"panic"}');
  while (true) {}
}
