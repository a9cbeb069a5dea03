// Package policy decides whether a call may run: permission rules, modes,
// paths, handlers and the approvals a session remembers. A Decision carries the
// whole way to it, each step with the rule and the source it came from, so that
// a person can be told why. It decides only: asking, waiting and recording are
// the pipeline's. What is not stated is denied or asked, never allowed.
package policy
