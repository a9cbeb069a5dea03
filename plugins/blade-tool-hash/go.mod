module github.com/bladehost/bladehost/plugins/blade-tool-hash

go 1.26.0

toolchain go1.26.8

require (
	github.com/bladehost/bladehost v0.0.0
	github.com/zeebo/blake3 v0.2.4
	golang.org/x/crypto v0.59.0
)

require (
	github.com/klauspost/cpuid/v2 v2.0.12 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/bladehost/bladehost => ../..
