package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bladehost/bladehost/testdata/bench/work"
)

// serve is the tool as a process of its own that reads a line and writes one.
func serve() {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		answer, err := work.Run(bytes.TrimSpace(line))
		if err != nil {
			answer = []byte("null")
		}
		_, _ = out.Write(append(answer, '\n'))
		if out.Flush() != nil {
			return
		}
	}
}

// peers are processes that one could use instead.
func (b *bench) peers() error {
	goGuest := b.guests()[3]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if b.wants("a native process in Go") {
		p, err := start(self, nil, "serve")
		if err != nil {
			return err
		}
		defer p.close()
		for _, size := range sizes {
			input := work.Input(size.n)
			s, err := b.compare(b.engine.side(goGuest.ask("ours", size.n)), timed(func() error { _, err := p.line(bytes.Clone(input)); return err }),
				timed(func() error { _, err := work.Run(input); return err }))
			if err != nil {
				return err
			}
			b.add(goGuest.name+", "+size.name+": faster than a native process in Go that stays, lines on stdio", s[0], s[1], goal{0, true, ""}, under)
			b.add(goGuest.name+", "+size.name+": over the same code as a native function", s[0], s[2], goal{}, over)
		}
	}
	if !b.wants("Node") {
		return nil
	}
	if err := b.node(goGuest); err != nil {
		fmt.Fprintf(os.Stderr, "skipped: Node: %v\n", err)
		b.note("the MCP server on Node was skipped: %v", err)
	}
	return nil
}

// nodePackage is the reference server of the Model Context Protocol.
const nodePackage = "@modelcontextprotocol/server-everything@2026.8.31"

func (b *bench) node(goGuest guest) error {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	dir := b.path("node")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "install", nodePackage)
	install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, nodePackage)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm: %w: %.300s", err, out)
	}
	script := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	p, err := startMCP(script)
	if err != nil {
		return err
	}
	defer p.close()
	for _, size := range sizes {
		text := string(bytes.Repeat([]byte("x"), size.n))
		s, err := b.compare(b.engine.side(goGuest.ask("ours", size.n)), timed(func() error { return p.echo(text) }),
			b.engine.side(b.guests()[2].ask("ours", size.n)))
		if err != nil {
			return err
		}
		want, wantRust := 0.0, 0.0
		if size.n == 1<<10 {
			want, wantRust = 3, 40
		}
		b.add(goGuest.name+", "+size.name+": faster than an MCP server on Node that stays, echo", s[0], s[1], goal{want, true, ""}, under)
		b.add(b.guests()[2].name+", "+size.name+": faster than an MCP server on Node that stays, echo", s[2], s[1], goal{wantRust, true, ""}, under)
	}
	b.coldNode = timed(func() error {
		p, err := startMCP(script)
		if err != nil {
			return err
		}
		err = p.echo("x")
		_ = p.cmd.Process.Kill() // how long it takes to end is its own affair
		p.close()
		return err
	})
	return nil
}

// mcp speaks the Model Context Protocol on stdio.
type mcp struct {
	*server
	id int
}

func startMCP(script string) (*mcp, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	s, err := startCommand(exec.Command(node, script, "stdio")) // its log goes nowhere
	if err != nil {
		return nil, err
	}
	p := &mcp{server: s}
	if _, err := p.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"}}); err != nil {
		p.close()
		return nil, err
	}
	_, err = p.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	return p, err
}

func (p *mcp) echo(text string) error {
	_, err := p.request("tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"message": text}})
	return err
}

// request writes a request and reads lines until its answer comes.
func (p *mcp) request(method string, params any) (json.RawMessage, error) {
	p.id++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     any
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		if id, ok := m.ID.(float64); !ok || m.Method != "" || int(id) != p.id {
			continue
		}
		if m.Error != nil {
			return nil, errors.New(string(m.Error))
		}
		return m.Result, nil
	}
}

// commands compares one call on the command line, from start to end.
func (b *bench) commands() error {
	if !b.wants("command line") {
		return nil
	}
	home := b.path("home")
	run := func(args ...string) error {
		cmd := exec.Command(b.path("bladehost"), args...)
		cmd.Env = append(os.Environ(), "BLADEHOST_HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("bladehost %v: %w: %.300s", args, err, out)
		}
		return nil
	}
	version := timed(func() error { return run("version") })
	input := string(work.Input(1 << 10))
	var sides []side
	var names []string
	for _, g := range []guest{b.guests()[0], b.guests()[2], b.guests()[3]} {
		out := b.path(filepath.Base(g.file) + ".plugin.wasm")
		if err := run("build", g.file, "-o", out); err != nil {
			b.note("the command line was skipped: %v", err)
			return nil
		}
		in := input
		if g.tool == "Rewrite" {
			in = `{"value":` + input + `}`
		}
		sides = append(sides, timed(func() error { return run("run", out, g.tool, in) }))
		names = append(names, g.name)
	}
	all := append([]side{version}, sides...)
	node, err := exec.LookPath("node")
	if err == nil {
		all = append(all, timed(func() error {
			return exec.Command(node, "-e", `const i=JSON.parse(process.argv[1]);console.log(JSON.stringify({greeting:"Hello, "+i.name,n:i.n,pad:i.pad}))`, input).Run()
		}))
	}
	if b.coldNode != nil {
		all = append(all, b.coldNode)
	}
	s, err := b.compare(all...)
	if err != nil {
		b.note("the command line was skipped: %v", err)
		return nil
	}
	b.add("command line, warm cache, "+names[0]+": more than bladehost version", s[1], s[0], goal{4e6, false, "ns"}, plus)
	b.add("command line, warm cache, "+names[1]+": more than bladehost version", s[2], s[0], goal{4e6, false, "ns"}, plus)
	if node != "" {
		b.add("command line, warm cache, "+names[2]+": over node -e with the same JSON work", s[3], s[4], goal{1.5, false, ""}, over)
	}
	if b.coldNode != nil {
		cold := s[len(s)-1]
		b.add("command line, "+names[2]+": faster than starting an MCP server on Node and one call", s[3], cold, goal{3, true, ""}, under)
		b.add("command line, "+names[0]+": faster than starting an MCP server on Node and one call", s[1], cold, goal{30, true, ""}, under)
	}
	return nil
}
