package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/policy"
)

// bladeFile is what blade.yaml says: the user's own and that of the current
// folder. A folder's file comes with whatever was checked out there, so it can
// only narrow: its denials count, its grants do not.
type bladeFile struct {
	allow, deny map[policy.GrantKind][]string
}

// permissionList is one block of permissions.
type permissionList struct {
	AllowRead       []string `yaml:"allow-read"`
	AllowWrite      []string `yaml:"allow-write"`
	AllowNet        []string `yaml:"allow-net"`
	AllowNetPrivate []string `yaml:"allow-net-private"`
	AllowEnv        []string `yaml:"allow-env"`
	AllowSecret     []string `yaml:"allow-secret"`
	DenyRead        []string `yaml:"deny-read"`
	DenyWrite       []string `yaml:"deny-write"`
	DenyNet         []string `yaml:"deny-net"`
	DenyNetPrivate  []string `yaml:"deny-net-private"`
	DenyEnv         []string `yaml:"deny-env"`
	DenySecret      []string `yaml:"deny-secret"`
}

type yamlFile struct {
	// Sets are named sets of permissions, for --set.
	Sets map[string]permissionList `yaml:"sets"`
	// Permissions always count.
	Permissions permissionList `yaml:"permissions"`
}

func (p permissionList) parts() (allow, deny map[policy.GrantKind][]string) {
	return map[policy.GrantKind][]string{policy.GrantRead: p.AllowRead, policy.GrantWrite: p.AllowWrite, policy.GrantNet: p.AllowNet,
			policy.GrantNetPrivate: p.AllowNetPrivate, policy.GrantEnv: p.AllowEnv, policy.GrantSecret: p.AllowSecret},
		map[policy.GrantKind][]string{policy.GrantRead: p.DenyRead, policy.GrantWrite: p.DenyWrite, policy.GrantNet: p.DenyNet,
			policy.GrantNetPrivate: p.DenyNetPrivate, policy.GrantEnv: p.DenyEnv, policy.GrantSecret: p.DenySecret}
}

// maxBladeFile bounds blade.yaml, in bytes.
const maxBladeFile = 1 << 20

// readBladeFiles reads the user's blade.yaml and that of the current folder.
func (a *app) readBladeFiles(p places, set string) (*bladeFile, error) {
	out := &bladeFile{allow: map[policy.GrantKind][]string{}, deny: map[policy.GrantKind][]string{}}
	user, err := readYAML(filepath.Join(p.config, "blade.yaml"), true)
	if err != nil {
		return nil, err
	}
	project, err := readYAML("blade.yaml", false)
	if err != nil {
		return nil, err
	}
	known := false
	for _, f := range []struct {
		y      *yamlFile
		trusts bool
	}{{user, true}, {project, false}} {
		lists := []permissionList{f.y.Permissions}
		if named, ok := f.y.Sets[set]; ok && set != "" {
			known = true
			lists = append(lists, named)
		}
		for _, l := range lists {
			out.take(a, l, f.trusts)
		}
	}
	if set != "" && !known {
		return nil, abi.NewError(abi.CodeUsage, "there is no set %q in blade.yaml; it is looked for in %s and in the current folder", set, p.config)
	}
	return out, nil
}

func (b *bladeFile) take(a *app, l permissionList, trusts bool) {
	allow, deny := l.parts()
	ignored := 0
	for _, k := range policy.GrantKinds() {
		b.deny[k] = slices.Concat(b.deny[k], deny[k])
		if trusts {
			b.allow[k] = slices.Concat(b.allow[k], allow[k])
		} else {
			ignored += len(allow[k])
		}
	}
	if ignored > 0 {
		a.note("%s the blade.yaml of this folder asks for %d permissions; a folder's file can only deny. Put them into your own, or use --allow-… flags", a.paint(a.errTTY, yellow, "ignored:"), ignored)
	}
}

// readYAML reads one blade.yaml. What it says of damage never holds its content:
// a folder's file may be anything.
func readYAML(path string, trusted bool) (*yamlFile, error) {
	var y yamlFile
	b, err := policy.OwnFile{Path: path, MaxBytes: maxBladeFile, Anyone: !trusted}.Read()
	if err != nil || len(b) == 0 {
		return &y, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	if err := dec.Decode(&y); err != nil && !errors.Is(err, io.EOF) {
		return nil, abi.NewError(abi.CodeIO, "%s cannot be used: %s", path, yamlProblem(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, abi.NewError(abi.CodeIO, "%s cannot be used: it has more than one YAML document", path)
	}
	for _, l := range append(slices.Collect(maps.Values(y.Sets)), y.Permissions) {
		if err := l.check(); err != nil {
			return nil, abi.NewError(abi.CodeIO, "%s cannot be used: %v", path, err)
		}
	}
	return &y, nil
}

// check refuses values that could not mean anything.
func (p permissionList) check() error {
	allow, deny := p.parts()
	for word, lists := range map[string]map[policy.GrantKind][]string{"allow": allow, "deny": deny} {
		for k, values := range lists {
			for _, v := range values {
				if err := checkValue(k, v); err != nil {
					return fmt.Errorf("%s-%s: %w", word, k, err)
				}
			}
		}
	}
	return nil
}

// yamlProblem says what is wrong with a file, without quoting it.
func yamlProblem(err error) string {
	lines := regexp.MustCompile(`line [0-9]+`).FindAllString(err.Error(), 3)
	where := "it is not YAML"
	if e := (*yaml.TypeError)(nil); errors.As(err, &e) {
		where = "it has fields that are not known, or of another kind"
	}
	if len(lines) > 0 {
		where += " (" + strings.Join(lines, ", ") + ")"
	}
	return where + "; known are permissions and sets, and in them lists named allow-… and deny-… with read, write, net, net-private, env or secret"
}
