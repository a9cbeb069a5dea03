package tool

import (
	"fmt"
	"strings"

	"github.com/bladehost/bladehost/abi"
)

// CheckSpec is nil for a definition that can be registered, or an error with
// code DEFINITION_INVALID that names every field that is wrong. Schemas are
// compiled only at registration.
func CheckSpec(s *abi.ToolSpec) error {
	issues := s.Validate()
	if len(issues) == 0 {
		return nil
	}
	return InvalidIssues(abi.CodeDefinition, fmt.Sprintf("the definition of tool %q is not valid", s.Name), issues)
}

// InvalidIssues makes the error for a list of findings: a line each in the
// message, and all of them in the details.
func InvalidIssues(code abi.Code, what string, issues []abi.Issue) *abi.Error {
	var b strings.Builder
	b.WriteString(what)
	for _, i := range issues {
		at := i.Pointer
		if at == "" {
			at = "(root)"
		}
		fmt.Fprintf(&b, "\n  %s: %s", at, i.Message)
	}
	return abi.NewError(code, "%s", b.String()).With(abi.IssueDetails{Issues: issues})
}
