package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/caps/secrets"
	"github.com/bladehost/bladehost/host/policy"
)

// keyringService is the name that our secrets have in the system's keyring.
const keyringService = "bladehost"

// secretConfig says where secrets come from beside the keyring and the file.
type secretConfig struct {
	// Env maps a secret to an environment variable.
	Env map[string]string `json:"env,omitempty"`
	// Command maps a secret to a command that prints it.
	Command map[string][]string `json:"command,omitempty"`
}

func secretsFile(p places) string      { return filepath.Join(p.config, "secrets") }
func secretConfigFile(p places) string { return filepath.Join(p.config, "secrets.json") }

// secretSources are the places secrets come from: variables that were mapped,
// commands, the keyring, and the private file.
func (a *app) secretSources(p places) ([]secrets.Source, error) {
	c, err := readSecretConfig(p)
	if err != nil {
		return nil, err
	}
	out := []secrets.Source{secrets.Env{Variables: c.Env}}
	for name, argv := range c.Command {
		out = append(out, secrets.Command{Argv: argv, Names: []string{name}})
	}
	return append(out, secrets.Keyring{Service: keyringService}, secrets.File{Path: secretsFile(p)}), nil
}

func readSecretConfig(p places) (secretConfig, error) {
	b, err := policy.OwnFile{Path: secretConfigFile(p)}.Read()
	if err != nil {
		return secretConfig{}, err
	}
	return parseSecretConfig(p, b)
}

func parseSecretConfig(p places, b []byte) (secretConfig, error) {
	c := secretConfig{Env: map[string]string{}, Command: map[string][]string{}}
	if b == nil {
		return c, nil
	}
	_, err := host.StrictObject(b)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, abi.NewError(abi.CodeIO, "%s cannot be used: %v", secretConfigFile(p), err)
	}
	return c, nil
}

// maxName is the longest name of a secret or of a variable, in bytes.
const maxName = 128

// isName reports whether s can be the name of a secret or of a variable. It is no
// regular expression: one with a bound costs a millisecond of every start.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxName
}

func secretCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep secrets that plugins use without seeing them",
		Args:  exactArgs(0),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var env string
	set := &cobra.Command{
		Use:   "set NAME [--env VARIABLE | -- COMMAND ARG…]",
		Short: "Keep a secret: its value is read from the terminal or standard input",
		Long: `Keep a secret. The value is read from the terminal, or from standard input, and
kept in the system's keyring, or where there is none in a file that only you can
read. With --env it is taken from an environment variable each time, with a
command from what that prints. A plugin uses it only after a grant
(--allow-secret NAME), in requests to the hosts its manifest names for it.`,
		Args: rangeArgs(1, -1),
		RunE: func(c *cobra.Command, args []string) error { return a.secretSet(c.Context(), args[0], env, args[1:]) },
	}
	set.Flags().StringVar(&env, "env", "", "take the value from this environment `variable`")
	c.AddCommand(set,
		&cobra.Command{Use: "ls", Short: "List the names of the secrets that are kept in files and mappings", Args: exactArgs(0), RunE: func(*cobra.Command, []string) error { return a.secretList() }},
		&cobra.Command{Use: "remove NAME", Short: "Forget a secret", Args: exactArgs(1), RunE: func(c *cobra.Command, args []string) error { return a.secretRemove(c.Context(), args[0]) }})
	return c
}

func (a *app) secretSet(ctx context.Context, name, env string, argv []string) error {
	if !isName(name) {
		return usage("%q is no name for a secret; use letters, digits and _", clip(name))
	}
	p, err := a.places()
	if err != nil {
		return err
	}
	if env != "" || len(argv) > 0 {
		return a.mapSecret(ctx, p, name, env, argv)
	}
	value, err := a.readSecret(name)
	if err != nil {
		return err
	}
	k := secrets.Keyring{Service: keyringService}
	if err := k.Set(name, value); err == nil {
		a.note("kept %s in the keyring", name)
		_, err := a.writeSecret(ctx, p, name, "") // no second copy
		return err
	}
	if _, err := a.writeSecret(ctx, p, name, value); err != nil {
		return err
	}
	a.note("kept %s in %s, which only you can read", name, secretsFile(p))
	return nil
}

// readSecret never shows what is typed.
func (a *app) readSecret(name string) (string, error) {
	if f, ok := a.in.(*os.File); ok && a.inTTY {
		a.note("value of %s:", name)
		b, err := term.ReadPassword(int(f.Fd()))
		if err != nil {
			return "", abi.NewError(abi.CodeIO, "the value cannot be read: %v", err)
		}
		return secretValue(name, string(b))
	}
	b, err := io.ReadAll(io.LimitReader(a.in, maxSecret+2))
	if err != nil {
		return "", abi.NewError(abi.CodeIO, "the value cannot be read: %v", err)
	}
	return secretValue(name, string(b))
}

// maxSecret bounds a secret's value, in bytes: a header value has no more.
const maxSecret = 16 << 10

// secretValue is the one line of text without its end.
func secretValue(name, text string) (string, error) {
	v := strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	switch {
	case len(v) < 4:
		return "", usage("the value of %s has fewer than 4 characters", name)
	case len(v) > maxSecret:
		return "", usage("the value of %s has more than %d bytes", name, maxSecret)
	case strings.ContainsFunc(v, unicode.IsControl):
		return "", usage("the value of %s has more than one line, or control characters; a header value has neither", name)
	}
	return v, nil
}

// writeSecret keeps a secret in the private file; an empty value removes it. It
// reports whether there was one.
func (a *app) writeSecret(ctx context.Context, p places, name, value string) (had bool, err error) {
	if _, err := os.Lstat(secretsFile(p)); errors.Is(err, fs.ErrNotExist) && value == "" {
		return false, nil
	}
	err = policy.OwnFile{Path: secretsFile(p)}.Change(ctx, func([]byte) ([]byte, error) {
		all, err := secrets.File{Path: secretsFile(p)}.Read()
		if err != nil {
			return nil, abi.NewError(abi.CodeIO, "%v", err)
		}
		_, had = all[name]
		var lines []string
		for n, v := range all {
			if n != name {
				lines = append(lines, n+"="+v+"\n")
			}
		}
		if value != "" {
			lines = append(lines, name+"="+value+"\n")
		}
		sort.Strings(lines)
		return []byte(strings.Join(lines, "")), nil
	})
	return had, err
}

func (a *app) mapSecret(ctx context.Context, p places, name, env string, argv []string) error {
	if env != "" && len(argv) > 0 {
		return usage("give either --env or a command for %s", name)
	}
	if env != "" && !isName(env) {
		return usage("%q is no name of a variable", clip(env))
	}
	return a.changeSecretConfig(ctx, p, func(c *secretConfig) {
		delete(c.Env, name)
		delete(c.Command, name)
		if env != "" {
			c.Env[name] = env
		} else if len(argv) > 0 {
			c.Command[name] = argv
		}
	})
}

func (a *app) changeSecretConfig(ctx context.Context, p places, change func(*secretConfig)) error {
	return policy.OwnFile{Path: secretConfigFile(p)}.Change(ctx, func(old []byte) ([]byte, error) {
		c, err := parseSecretConfig(p, old)
		if err != nil {
			return nil, err
		}
		change(&c)
		b, err := json.MarshalIndent(c, "", "  ")
		return append(b, '\n'), err
	})
}

func (a *app) secretList() error {
	p, err := a.places()
	if err != nil {
		return err
	}
	c, err := readSecretConfig(p)
	if err != nil {
		return err
	}
	file, err := secrets.File{Path: secretsFile(p)}.Read()
	if err != nil {
		return abi.NewError(abi.CodeIO, "%v", err)
	}
	where := map[string]string{}
	for n := range file {
		where[n] = "file"
	}
	for n := range c.Command {
		where[n] = "command"
	}
	for n, v := range c.Env {
		where[n] = "variable " + v
	}
	if a.json {
		writeJSON(a.out, map[string]any{"secrets": where})
		return nil
	}
	var rows [][]string
	for n, w := range where {
		rows = append(rows, []string{n, w})
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i][0] < rows[j][0] })
	if len(rows) == 0 {
		a.note("no secret is kept in files or mappings (the keyring is not listed)")
		return nil
	}
	return a.table([]string{"NAME", "FROM"}, rows)
}

func (a *app) secretRemove(ctx context.Context, name string) error {
	p, err := a.places()
	if err != nil {
		return err
	}
	had := secrets.Keyring{Service: keyringService}.Delete(name) == nil // there may be no keyring
	kept, err := a.writeSecret(ctx, p, name, "")
	if err != nil {
		return err
	}
	c, err := readSecretConfig(p)
	if err != nil {
		return err
	}
	if c.Env[name] == "" && c.Command[name] == nil {
		if !had && !kept {
			return usage("there is no secret %s; see: bladehost secret ls", clip(name))
		}
		return nil
	}
	return a.changeSecretConfig(ctx, p, func(c *secretConfig) {
		delete(c.Env, name)
		delete(c.Command, name)
	})
}
