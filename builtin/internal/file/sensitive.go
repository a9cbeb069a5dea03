package file

import (
	"path"
	"slices"
	"strings"
)

// Sensitive reports whether a name usually holds secrets, so that changing the file
// counts as destructive. It looks at the name only; backslashes part elements too.
func Sensitive(p string) bool {
	base := strings.ToLower(path.Base(strings.ReplaceAll(p, `\`, "/")))
	switch base {
	case ".env", "credentials", "secrets", ".npmrc", ".pypirc", ".netrc", ".pgpass", "id_rsa", "id_ed25519", "id_ecdsa":
		return true
	}
	if strings.HasPrefix(base, ".env.") {
		return true
	}
	ext := path.Ext(base)
	if stem := strings.TrimSuffix(base, ext); stem == "credentials" || stem == "secrets" {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, ext) {
			return true
		}
	}
	// A leading dot makes no extension: ".pem" is a name.
	return ext != base && slices.Contains([]string{".pem", ".key", ".p12", ".pfx", ".keystore"}, ext)
}
