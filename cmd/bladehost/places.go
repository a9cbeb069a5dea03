package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// places are the folders of the user. BLADEHOST_HOME replaces all four.
type places struct {
	config, data, state, cache string
}

func (a *app) places() (places, error) {
	if home := a.getenv("BLADEHOST_HOME"); home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return places{}, abi.NewError(abi.CodeIO, "BLADEHOST_HOME: %v", err)
		}
		return places{filepath.Join(abs, "config"), filepath.Join(abs, "data"), filepath.Join(abs, "state"), filepath.Join(abs, "cache")}, nil
	}
	user, err := os.UserHomeDir()
	pick := func(env string, parts ...string) string {
		// The specification of these variables: a relative path is ignored.
		if dir := a.getenv(env); filepath.IsAbs(dir) {
			return filepath.Join(dir, "bladehost")
		}
		return filepath.Join(append(append([]string{user}, parts...), "bladehost")...)
	}
	p := places{
		config: pick("XDG_CONFIG_HOME", ".config"), data: pick("XDG_DATA_HOME", ".local", "share"),
		state: pick("XDG_STATE_HOME", ".local", "state"), cache: pick("XDG_CACHE_HOME", ".cache"),
	}
	if err != nil && !(filepath.IsAbs(p.config) && filepath.IsAbs(p.data) && filepath.IsAbs(p.state) && filepath.IsAbs(p.cache)) {
		return p, abi.NewError(abi.CodeIO, "your home folder is not known (%v); set BLADEHOST_HOME", err)
	}
	return p, nil
}

// compiled is the folder of compiled plugins.
func (p places) compiled() string { return filepath.Join(p.cache, "compiled") }

func absPath(p string) (string, error) {
	if strings.TrimSpace(p) == "" { // an unset variable, not the current folder
		return "", usage("the path is empty; give a folder, or . for the current one")
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", abi.NewError(abi.CodeIO, "%s: %v", p, err)
	}
	return abs, nil
}
