package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bladehost/bladehost/abi"
)

func buildCommand(a *app) *cobra.Command {
	var out string
	var nv nameVersion
	c := &cobra.Command{
		Use:   "build DIR|FILE.wasm [-o FILE]",
		Short: "Build a plugin, or add the manifest to a ready module",
		Long: `Build the Go plugin in DIR, or take a ready module of any language, ask it once
for its manifest and write it with the manifest section that every other command
reads. A plugin made for another host, on Extism's memory model, does not know its
name and version: say them with --name and --version. Without -o the file is NAME.wasm in the current folder, NAME being the
last part of the plugin's name.`,
		Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.build(c.Context(), args[0], out, nv) },
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write the plugin to this `file`")
	c.Flags().StringVar(&nv.name, "name", "", "`name` of a plugin made for another host, as blade-tool-…")
	c.Flags().StringVar(&nv.version, "version", "", "`version` of a plugin made for another host, as 1.0.0")
	return c
}

func (a *app) build(ctx context.Context, ref, out string, nv nameVersion) error {
	h, err := a.newHost(hostFlags{})
	if err != nil {
		return err
	}
	defer closeHost(h)
	var module []byte
	if fi, e := os.Stat(ref); e == nil && fi.IsDir() {
		if nv != (nameVersion{}) {
			return usage("--name and --version are for ready modules made for another host; the source in %s says its own", ref)
		}
		module, err = a.buildFolder(ctx, h, ref)
	} else {
		module, err = a.moduleOf(ctx, h, ref)
		if err == nil {
			module, err = addManifest(ctx, h, ref, module, nv)
		}
	}
	if err != nil {
		return err
	}
	info, err := usable(ref, module)
	if err != nil {
		return err
	}
	if out == "" {
		out = defaultName(info.Manifest.Name)
	}
	if err := writeNew(out, module); err != nil {
		return abi.NewError(abi.CodeIO, "%s cannot be written: %v", out, err)
	}
	if a.json {
		writeJSON(a.out, map[string]any{"file": out, "name": info.Manifest.Name, "version": info.Manifest.Version, "sha256": info.Digest, "size": info.Size})
		return nil
	}
	a.note("%s %s: %s, sha256 %s", info.Manifest.Name, info.Manifest.Version, sizeText(int64(info.Size)), info.Digest)
	return a.line(out)
}

func defaultName(plugin string) string {
	if i := strings.LastIndexByte(plugin, '/'); i >= 0 {
		plugin = plugin[i+1:]
	}
	return filepath.Base(plugin) + ".wasm"
}
