module github.com/bladehost/bladehost/plugins/blade-tool-github

go 1.26.0

toolchain go1.26.8

require github.com/bladehost/bladehost v0.0.0

require (
	github.com/danieljoos/wincred v1.2.3 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/godbus/dbus/v5 v5.2.2 // indirect
	github.com/gofrs/flock v0.13.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/tetratelabs/wazero v1.12.0 // indirect
	github.com/zalando/go-keyring v0.2.8 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/bladehost/bladehost => ../..
