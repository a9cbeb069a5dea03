module github.com/bladehost/bladehost/plugins/blade-tool-jq

go 1.26.0

toolchain go1.26.8

require (
	github.com/bladehost/bladehost v0.0.0
	github.com/itchyny/gojq v0.12.20
)

require github.com/itchyny/timefmt-go v0.1.9 // indirect

replace github.com/bladehost/bladehost => ../..
