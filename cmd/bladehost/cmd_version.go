package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
)

// version is set by a release build (-ldflags -X); otherwise the module's.
var version = ""

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				writeJSON(a.out, map[string]any{"version": versionText(), "abi": abi.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
				return nil
			}
			_, err := fmt.Fprintf(a.out, "bladehost %s (abi %d, %s, %s/%s)\n", versionText(), abi.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
