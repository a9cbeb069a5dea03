package host

import (
	"encoding/json"
	"slices"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/schema"
	"github.com/bladehost/bladehost/host/internal/wasm"
)

// What a checker of plugins needs beyond Inspect: manifests that are not valid,
// and schemas on their own.

// SplitManifest takes a module apart: its bytes without a manifest section, and
// the section's content as it stands, valid or not; nil where there is none. The
// error is that of a module that cannot be read.
func SplitManifest(module []byte) (code []byte, manifest json.RawMessage, err error) {
	if _, err := Inspect(module); err != nil && !aboutManifest(err) {
		return nil, nil, err
	}
	raw, n, err := wasm.FindCustom(module, abi.ManifestSection)
	switch {
	case err != nil:
		return nil, nil, err
	case n == 0:
		return module, nil, nil
	case n > 1:
		return nil, nil, abi.NewError(abi.CodeManifest, "the module has %d %s sections; one is allowed", n, abi.ManifestSection)
	}
	code, err = wasm.RemoveCustom(module, abi.ManifestSection)
	return code, slices.Clone(raw), err
}

// aboutManifest reports whether a module can be read, but not its manifest.
func aboutManifest(err error) bool {
	switch abi.CodeOf(err) {
	case abi.CodeManifest, abi.CodeABIVersion, abi.CodeFeature:
		return true
	}
	return false
}

// Schema is a compiled JSON Schema, with the limits that tools' schemas have. It
// is safe for concurrent use.
type Schema struct{ v *schema.Validator }

// CompileSchema compiles a schema as a tool's parameters are: the root must
// describe an object. The error has abi.CodeSchema.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	v, err := schema.CompileObject(raw)
	if err != nil {
		return nil, err
	}
	return &Schema{v}, nil
}

// CheckSchema is the error of a schema that cannot be used for any value, or nil.
func CheckSchema(raw json.RawMessage) error {
	_, err := schema.Compile(raw)
	return err
}

// Validate names every place of a value that does not fit. An error means that
// the value is no strict JSON or cannot be judged.
func (s *Schema) Validate(value json.RawMessage) ([]abi.Issue, error) { return s.v.Validate(value) }
