//go:build !wasip1

package pdk

// serve does nothing outside Wasm: a unit test of a plugin runs its init
// functions too, and hands the plugin to pdktest itself.
func serve(Plugin) {}
