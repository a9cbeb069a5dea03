//go:build !wasip1

package pdk

import (
	"embed"
	"io/fs"

	"github.com/bladehost/bladehost/abi"
)

//go:embed *.go pdktest/*.go pdkhttp/*.go
var source embed.FS

// Source is the kit's own Go source without its tests: this package, pdktest and
// pdkhttp. With abi.Source a plugin can be built offline: the kit imports
// nothing else but the standard library.
func Source() fs.FS { return abi.WithoutTests(source) }
