package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bladehost/bladehost/host/caps/secrets"
)

// examineConfig reads every file of the user's configuration: one that cannot be
// used stops the commands that need it.
func (a *app) examineConfig(context.Context) []symptom {
	p, err := a.places()
	if err != nil {
		return nil // examinePlaces said so
	}
	var out []symptom
	for _, f := range []struct {
		what, path string
		private    bool
		read       func() error
	}{
		{"blade.yaml", filepath.Join(p.config, "blade.yaml"), false, func() error { _, err := readYAML(filepath.Join(p.config, "blade.yaml"), true); return err }},
		{"settings", settingsPath(p), false, func() error { _, err := readSettings(settingsPath(p)); return err }},
		{"sources of secrets", secretConfigFile(p), false, func() error { _, err := readSecretConfig(p); return err }},
		{"secrets", secretsFile(p), true, func() error { _, err := secrets.File{Path: secretsFile(p)}.Read(); return err }},
		{"grants", filepath.Join(p.config, "grants.json"), false, func() error {
			store, _, err := a.grantStore()
			if err == nil {
				_, err = store.List()
			}
			return err
		}},
	} {
		if _, err := os.Lstat(f.path); os.IsNotExist(err) {
			continue
		}
		s := symptom{What: f.what, Status: statusOK, Detail: f.path}
		if err := f.read(); err != nil {
			s.Status, s.Detail = statusProblem, err.Error()
			s.Fix = fmt.Sprintf("mend %s, or move it away: mv %s %s", f.path, shellQuote(f.path), shellQuote(f.path+".old"))
			if f.private {
				s.Fix = "chmod 600 " + shellQuote(f.path)
			}
		}
		out = append(out, s)
	}
	return out
}
