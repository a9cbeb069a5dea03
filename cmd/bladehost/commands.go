package main

import "github.com/spf13/cobra"

// commands is the one list of verbs, in the order of the help.
func commands() []func(*app) *cobra.Command {
	return []func(*app) *cobra.Command{
		runCommand,
		toolsCommand,
		inspectCommand,
		installCommand,
		listCommand,
		removeCommand,
		buildCommand,
		sessionCommand,
		versionCommand,
	}
}
