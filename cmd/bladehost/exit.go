package main

import (
	"context"
	"errors"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Exit codes. docs/cli.md has the same table; it is generated from exitDocs.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitModule      = 3
	exitDenied      = 4
	exitTimeout     = 5
	exitNotFound    = 6
	exitInput       = 7
	exitInternal    = 8
	exitChanged     = 9
	exitLease       = 10
	exitInterrupted = 130
	exitTerminated  = 143
)

var exitDocs = []struct {
	Code    int
	Meaning string
}{
	{exitOK, "it worked"},
	{exitFailed, "the tool ran and failed, or a check found errors"},
	{exitUsage, "the command line is not understood"},
	{exitModule, "the file is no usable plugin, or it does not build"},
	{exitDenied, "a permission is missing or was denied"},
	{exitTimeout, "the deadline passed"},
	{exitNotFound, "there is no such tool, plugin, journal or session"},
	{exitInput, "the input is no JSON object or does not fit the tool's schema"},
	{exitInternal, "a file cannot be read or written, or bladehost itself failed"},
	{exitChanged, "a plugin is not the one that was accepted"},
	{exitLease, "another process owns the session"},
	{exitInterrupted, "interrupted (SIGINT)"},
	{exitTerminated, "terminated (SIGTERM)"},
}

// exitCode is the exit code of a finished command. A signal that came decides
// over everything that it caused.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if s := signalled(ctx); s != 0 {
		return s
	}
	var told *toldError
	if errors.As(err, &told) {
		return told.code
	}
	code := abi.CodeOf(err)
	if code == "" {
		return exitUsage // cobra's own errors are about the command line
	}
	return exitOf(code, abi.AsError(err).Type)
}

func signalled(ctx context.Context) int {
	var c *tool.CancelError
	if ctx.Err() == nil || !errors.As(context.Cause(ctx), &c) {
		return 0
	}
	if c.Detail == "terminated" {
		return exitTerminated
	}
	return exitInterrupted
}

var exitByCode = map[abi.Code]int{
	abi.CodeUsage: exitUsage, abi.CodeOptions: exitUsage,
	abi.CodeToolNotFound: exitNotFound, abi.CodeNotInstalled: exitNotFound, abi.CodeNotDiscovered: exitNotFound,
	abi.CodeArgumentsInvalid: exitInput, abi.CodeValidation: exitInput,
	abi.CodeChanged: exitChanged, abi.CodeCorrupt: exitChanged,
	abi.CodeJournalMissing: exitNotFound, abi.CodeJournalWrite: exitInternal, abi.CodeJournalRead: exitInternal, abi.CodeUnknownOutcome: exitInternal,
	abi.CodeJournalCorrupt: exitInternal, abi.CodeJournalVersion: exitInternal, abi.CodeRecovery: exitInput,
	abi.CodeLeaseConflict: exitLease, abi.CodeLeaseStale: exitLease, abi.CodeLeaseRequired: exitLease, abi.CodeLeaseTimeout: exitLease,
	abi.CodeLeaseLost: exitLease, abi.CodeLeaseCorrupt: exitInternal, abi.CodeLeaseWrite: exitInternal,
	abi.CodeIO: exitInternal, abi.CodeLifecycle: exitInternal, abi.CodeToolPanic: exitInternal,
	abi.CodeNotWasm: exitModule, abi.CodeComponent: exitModule, abi.CodeModuleTruncated: exitModule, abi.CodeModuleMalformed: exitModule,
	abi.CodeModuleLimit: exitModule, abi.CodeModuleFeature: exitModule, abi.CodeCommandModule: exitModule, abi.CodeExportMissing: exitModule,
	abi.CodeExportType: exitModule, abi.CodeImportUnknown: exitModule, abi.CodeImportType: exitModule, abi.CodeCompile: exitModule,
	abi.CodeInit: exitModule, abi.CodeManifestMissing: exitModule, abi.CodeManifest: exitModule, abi.CodeManifestDiffers: exitModule,
	abi.CodeABIVersion: exitModule, abi.CodeFeature: exitModule, abi.CodeBuild: exitModule, abi.CodeNoToolchain: exitModule,
	abi.CodeDefinition: exitModule, abi.CodeSchema: exitModule, abi.CodeNameReserved: exitModule, abi.CodeNameTaken: exitModule,
	abi.CodeAliasTaken: exitModule, abi.CodeServiceName: exitModule,
}

// exitOf is the exit code of an error by its code, else by its type.
func exitOf(code abi.Code, t abi.ErrorType) int {
	if n, ok := exitByCode[code]; ok {
		return n
	}
	switch t {
	case abi.TypePermission:
		return exitDenied
	case abi.TypeTimeout:
		return exitTimeout
	}
	return exitFailed
}
