package main

import "github.com/spf13/cobra"

// commands is the one list of verbs, in the order of docs/cli.md.
func commands() []func(*app) *cobra.Command {
	return []func(*app) *cobra.Command{
		runCommand,
		toolsCommand,
		inspectCommand,
		newCommand,
		buildCommand,
		checkCommand,
		installCommand,
		listCommand,
		removeCommand,
		sessionCommand,
		journalCommand,
		historyCommand,
		grantCommand,
		grantsCommand,
		configCommand,
		secretCommand,
		doctorCommand,
		versionCommand,
	}
}
