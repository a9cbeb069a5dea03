package file

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Obeyed says why a change of a file is more than a change of data: other programs run what it says without
// being asked. It is "" for all others, looks at the name only, and in any letter case. The list
// cannot be complete: a Makefile is run too, but only by who wants that.
func Obeyed(p string) string {
	p = strings.ToLower(filepath.ToSlash(p))
	base := path.Base(p)
	under := func(dirs ...string) bool {
		return slices.ContainsFunc(dirs, func(d string) bool { return strings.Contains(p, "/"+d+"/") })
	}
	switch {
	case base == ".gitconfig", base == ".gitmodules", base == ".git", under(".git"):
		return "Git obeys it"
	case slices.Contains([]string{".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", "config.fish", "microsoft.powershell_profile.ps1"}, base), under("fish/conf.d"):
		return "a shell runs it when it starts"
	case base == ".envrc", base == ".direnvrc", base == ".mise.toml", base == "mise.toml":
		return "shells run it when they enter the folder"
	case under(".vscode", ".idea", ".fleet", ".zed", ".devcontainer"), base == ".devcontainer.json", strings.HasSuffix(base, ".code-workspace"):
		return "editors run the programs that it names"
	case slices.Contains([]string{".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs", ".dir-locals.el", ".gdbinit", ".lldbinit", ".tmux.conf", ".screenrc"}, base), under(".vim", ".emacs.d", ".config/nvim"):
		return "programs run it when they start"
	case under(".husky", ".githooks"), base == ".pre-commit-config.yaml", base == "lefthook.yml", base == ".lefthook.yml":
		return "it is run when Git makes a commit"
	case base == ".mcp.json", under(".claude", ".cursor"):
		return "agents run the programs that it names"
	case under(".config/autostart", ".config/systemd", "library/launchagents", ".github/workflows"), base == "crontab":
		return "programs that it names are run by themselves"
	case base == "blade.yaml", base == "blade.yml":
		return "it says what plugins may do"
	}
	return ""
}
