package policy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The rules as they are told, as patterns.
var (
	highPattern   = regexp.MustCompile(`^(id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|key|p12|pfx|ppk)|keystore|\.?pgpass|\.?my\.cnf|.*credentials\.json|service-account.*\.json)$`)
	mediumPattern = regexp.MustCompile(`^(\.env|\.env\..*|\.npmrc|\.pypirc|\.dockercfg|\.netrc|\.git-credentials|config\.toml|secrets\..*)$`)
	lowPattern    = regexp.MustCompile(`^.*\.(sqlite|sqlite3|db|sql)$`)
)

func sensitivityByPattern(path string) Sensitive {
	slashed := "/" + strings.TrimPrefix(strings.ToLower(filepath.ToSlash(path)), "/")
	base := slashed[strings.LastIndexByte(slashed, '/')+1:]
	for _, dir := range []string{"/.ssh/", "/.aws/", "/.kube/", "/.config/gcloud/", "/.gnupg/"} {
		if strings.Contains(slashed+"/", dir) {
			return SensitiveHigh
		}
	}
	switch {
	case strings.HasSuffix(slashed, "/.docker/config.json"):
		return SensitiveMedium
	case highPattern.MatchString(base):
		return SensitiveHigh
	case mediumPattern.MatchString(base):
		return SensitiveMedium
	case lowPattern.MatchString(base):
		return SensitiveLow
	}
	return ""
}

// FuzzSensitivity: a path is judged as by the patterns, also name by name in a folder.
func FuzzSensitivity(f *testing.F) {
	names := []string{"", "a.go", ".env", ".ENV.x", ".env.", ".environment", "id_rsa", "ID_ed25519", "id_rsa.pub", "x.pem", ".pem", "pem", "X.KEY", "x.\u212aey", "my.cnf", ".my.cnf", "xmy.cnf", "pgpass", "..pgpass", "credentials.json", "Aws-credentials.json",
		"service-account.json", "service-account-1.json", "service-account", "config.toml", "config.json", "secrets.", "secrets.go", "secrets", "keystore", "keystore2", "db.sql", "x.sqlite3", "a\n.pem", "secrets.\n", ".env\n", "\xff.pem", ".ssh", "gcloud", ".gnupg", ".docker"}
	for _, dir := range []string{"", "/", "//", "/w", "w", "/w/.ssh", "/w/.docker", "/w/.config", "/w/x.config", "/w/.config/gcloud/x", "/w/.KUBE", "/.aws", ".aws"} {
		for _, n := range names {
			f.Add(dir, n)
		}
	}
	f.Fuzz(func(t *testing.T, dir, name string) {
		for _, path := range []string{dir, name, dir + "/" + name, filepath.Join(dir, name)} {
			if got, want := Sensitivity(path), sensitivityByPattern(path); got != want {
				t.Errorf("%q is %q, not %q", path, got, want)
			}
		}
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) {
			return
		}
		folder := filepath.Clean(dir)
		if path := filepath.Join(folder, name); folder != "." && SensitivityIn(folder)(name) != Sensitivity(path) {
			t.Errorf("%q in %q is %q, not %q", name, folder, SensitivityIn(folder)(name), Sensitivity(path))
		}
	})
}
