package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host"
	"github.com/bladehost/bladehost/host/caps/secrets"
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
	var c secretConfig
	b, err := os.ReadFile(secretConfigFile(p))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		if _, err = host.StrictObject(b); err == nil {
			err = json.Unmarshal(b, &c)
		}
	}
	if err != nil {
		return c, abi.NewError(abi.CodeIO, "%s cannot be used: %v", secretConfigFile(p), err)
	}
	return c, nil
}

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

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
		RunE: func(_ *cobra.Command, args []string) error { return a.secretSet(args[0], env, args[1:]) },
	}
	set.Flags().StringVar(&env, "env", "", "take the value from this environment `variable`")
	c.AddCommand(set,
		&cobra.Command{Use: "ls", Short: "List the names of the secrets that are kept in files and mappings", Args: exactArgs(0), RunE: func(*cobra.Command, []string) error { return a.secretList() }},
		&cobra.Command{Use: "remove NAME", Short: "Forget a secret", Args: exactArgs(1), RunE: func(_ *cobra.Command, args []string) error { return a.secretRemove(args[0]) }})
	return c
}

func (a *app) secretSet(name, env string, argv []string) error {
	if !secretName.MatchString(name) {
		return usage("%q is no name for a secret; use letters, digits and _", clip(name))
	}
	p, err := a.places()
	if err != nil {
		return err
	}
	if env != "" || len(argv) > 0 {
		return a.mapSecret(p, name, env, argv)
	}
	value, err := a.readSecret(name)
	if err != nil {
		return err
	}
	k := secrets.Keyring{Service: keyringService}
	if err := k.Set(name, value); err == nil {
		a.note("kept %s in the keyring", name)
		return a.writeSecret(p, name, "") // no second copy
	}
	if err := a.writeSecret(p, name, value); err != nil {
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
		return strings.TrimSpace(string(b)), err
	}
	line, err := bufio.NewReader(io.LimitReader(a.in, 64<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", abi.NewError(abi.CodeIO, "the value cannot be read: %v", err)
	}
	v := strings.TrimRight(line, "\r\n")
	if len(v) < 4 {
		return "", usage("the value of %s has fewer than 4 characters", name)
	}
	return v, nil
}

// writeSecret keeps a secret in the private file; an empty value removes it.
func (a *app) writeSecret(p places, name, value string) error {
	all, err := secrets.File{Path: secretsFile(p)}.Read()
	if err != nil {
		return abi.NewError(abi.CodeIO, "%v", err)
	}
	if all == nil {
		if value == "" {
			return nil
		}
		all = map[string]string{}
	}
	all[name] = value
	if value == "" {
		delete(all, name)
	}
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	for _, n := range names {
		b.WriteString(n + "=" + all[n] + "\n")
	}
	if err := os.MkdirAll(p.config, 0o700); err != nil {
		return abi.NewError(abi.CodeIO, "%v", err)
	}
	if err := writePrivate(secretsFile(p), []byte(b.String())); err != nil {
		return abi.NewError(abi.CodeIO, "the secret cannot be kept: %v", err)
	}
	return nil
}

func (a *app) mapSecret(p places, name, env string, argv []string) error {
	if env != "" && len(argv) > 0 {
		return usage("give either --env or a command for %s", name)
	}
	return a.changeSecretConfig(p, func(c *secretConfig) {
		delete(c.Env, name)
		delete(c.Command, name)
		if env != "" {
			c.Env[name] = env
		} else if len(argv) > 0 {
			c.Command[name] = argv
		}
	})
}

func (a *app) changeSecretConfig(p places, change func(*secretConfig)) error {
	c, err := readSecretConfig(p)
	if err != nil {
		return err
	}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	if c.Command == nil {
		c.Command = map[string][]string{}
	}
	change(&c)
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.config, 0o700); err != nil {
		return abi.NewError(abi.CodeIO, "%v", err)
	}
	if err := writePrivate(secretConfigFile(p), append(b, '\n')); err != nil {
		return abi.NewError(abi.CodeIO, "%v", err)
	}
	return nil
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

func (a *app) secretRemove(name string) error {
	p, err := a.places()
	if err != nil {
		return err
	}
	_ = secrets.Keyring{Service: keyringService}.Delete(name) // there may be no keyring
	if err := a.writeSecret(p, name, ""); err != nil {
		return err
	}
	if _, err := os.Stat(secretConfigFile(p)); err != nil {
		return nil
	}
	return a.changeSecretConfig(p, func(c *secretConfig) {
		delete(c.Env, name)
		delete(c.Command, name)
	})
}
