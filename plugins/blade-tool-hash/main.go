// Command blade-tool-hash is a bladehost plugin that computes and checks
// cryptographic digests of texts and files.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o blade-tool-hash.wasm .
package main

import (
	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

func plugin() pdk.Plugin {
	return pdk.Plugin{
		Name: "blade-tool-hash", Version: "0.1.0", License: "Apache-2.0",
		Description:  "Computes and checks cryptographic digests of texts and files.",
		Capabilities: abi.Capabilities{FS: &abi.FSRequest{Read: true, Why: "To read the files whose digests are asked for."}},
		Tools: []pdk.Tool{
			pdk.DefineStream(pdk.Spec{
				Name:        "Hash",
				Description: "Computes the digest of a text or a file.",
				UsageNotes: []string{
					"Give exactly one of text and path.",
					"A text is hashed as its UTF-8 bytes, without a newline at the end.",
					"blake2b is BLAKE2b-512, as in b2sum; blake3 has 32 bytes, as in b3sum. md5 and sha1 are for checking old sums, not for security.",
				},
				Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Cancel,
				PathParams: []string{"/path"},
				Yields:     []abi.YieldKind{abi.YieldProgress},
			}, hashTool),
			pdk.DefineStream(pdk.Spec{
				Name:        "VerifySums",
				Description: "Checks files against a list of digests such as SHA256SUMS.",
				UsageNotes: []string{
					"The list has the format of sha256sum and its relatives, or their --tag format. Relative names start from the folder of the list.",
					"ok is true only if at least one file was checked, all that were checked are right, and none is missing (unless ignoreMissing).",
				},
				Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Cancel,
				PathParams: []string{"/path"},
				Yields:     []abi.YieldKind{abi.YieldProgress},
			}, verifyTool),
		},
	}
}

func init() { pdk.Serve(plugin()) }

func main() {}
