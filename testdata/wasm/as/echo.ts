// A small guest in AssemblyScript: Echo returns its input, Count yields, Throw
// throws.
import { cancelled, ret, send, take } from "./blade";
export { bladeAbort } from "./blade";

function tool(name: string, description: string, properties: string, required: string): string {
  return (
    '{"name":"' + name + '","description":"' + description + '","parameters":{"type":"object","properties":{' + properties +
    '},"required":[' + required + ']},"kind":"readonly","sideEffect":"pure","interruptBehavior":"cancel"}'
  );
}

export function blade_describe(): void {
  ret(0, '{"abi":1,"name":"blade-tool-as-echo","version":"1.0.0","description":"A small guest in AssemblyScript.","tools":[' +
    tool("Echo", "Returns its input.", "", "") + "," +
    tool("Count", "Yields as often as it is told.", '"n":{"type":"integer","minimum":0,"maximum":1000}', '"n"') + "," +
    tool("Throw", "Throws.", "", "") + "]}");
}

// digits is the number behind "n": a tool of more than this wants a JSON library,
// such as json-as.
function digits(input: string): i32 {
  let i = input.indexOf('"n"') + 3;
  while (i < input.length && (input.charCodeAt(i) < 48 || input.charCodeAt(i) > 57)) i++;
  return <i32>parseInt(input.substring(i));
}

export function blade_execute(tool: i32, len: i32): void {
  const input = take(len);
  if (tool == 0) return ret(0, input);
  if (tool == 2) throw new Error("thrown \"on\" purpose");
  const n = digits(input);
  for (let i = 1; i <= n; i++) {
    if (cancelled() || send('{"kind":"message","content":{"summary":"' + i.toString() + '"}}') == 1)
      return ret(2, '{"message":"stopped as told","code":"cancelled"}');
  }
  ret(0, '{"counted":' + n.toString() + "}");
}
