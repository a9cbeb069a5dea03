// Package pdk is the kit for bladehost tools written in Go. A plugin is a main
// package that describes itself in an init function and is built for Wasm:
//
//	package main
//
//	import (
//		"context"
//
//		"github.com/bladehost/bladehost/pdk"
//	)
//
//	type in struct {
//		Name string `json:"name" jsonschema:"Whom to greet."`
//	}
//
//	func greet(ctx context.Context, in in) (string, error) { return "Hello, " + in.Name, nil }
//
//	func init() {
//		pdk.Serve(pdk.Plugin{
//			Name: "blade-tool-greet", Version: "0.1.0", Description: "Greets.",
//			Tools: []pdk.Tool{pdk.Define(pdk.Spec{
//				Name: "Greet", Description: "Greets somebody.",
//				Kind: pdk.ReadOnly, SideEffect: pdk.Pure, Interrupt: pdk.Block,
//			}, greet)},
//		})
//	}
//
//	func main() {}
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o greet.wasm .
//
// The module is a reactor: main never runs, package initialisation does.
//
// [Define] makes a tool of a function from parameters to JSON data; it cannot
// yield. [DefineStream] makes one that sends progress, messages and effects
// while it runs and may return a result with a part for people.
//
// # Cancellation
//
// The context of a call asks the host: Err is current whenever it is called, at
// the price of one host call (some 50 ns), so a loop that computes should call
// it every few milliseconds of work. Done starts a goroutine that polls; Go on
// Wasm has no preemption, so Done cannot fire while another goroutine computes
// without blocking. Contexts derived from it inherit that: their Err is only as
// fresh as the last time the poller ran. [context.Cause] is a [*CancelError].
//
// # What does not survive a reset
//
// A host may put the memory of an instance back to where it was after package
// initialisation and warm-up before each call. Package variables therefore keep
// what init and [Plugin.Warm] put there, and nothing that a call puts there; and
// math/rand gives the same numbers in every call. Use crypto/rand.
//
// # Panics
//
// A panic of the tool becomes an error result with code "panic". A panic in a
// goroutine that the tool started ends the instance, as in any Go program.
//
// # Tests
//
// The package also compiles natively, and package pdktest runs a tool in an
// ordinary unit test, with a host that checks what a real one would.
package pdk
