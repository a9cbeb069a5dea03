package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

const (
	// maxSaid bounds the text of a server in a message, maxProblems the entries
	// of its list of errors.
	maxSaid     = 300
	maxProblems = 20
	// patience is what GitHub asks for where an answer names no time.
	patience = 60
)

// problem is an entry of GitHub's list of errors.
type problem struct {
	Resource string `json:"resource,omitempty"`
	Field    string `json:"field,omitempty"`
	Code     string `json:"code,omitempty"`
	Message  string `json:"message,omitempty"`
}

// UnmarshalJSON takes what GitHub sends: an object, or a text alone.
func (p *problem) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &p.Message)
	}
	type plain problem
	_ = json.Unmarshal(b, (*plain)(p)) // what does not fit stays empty
	p.Resource, p.Field, p.Code, p.Message = brief(p.Resource), brief(p.Field), brief(p.Code), brief(p.Message)
	return nil
}

// complaint is the body of an answer that is no success.
type complaint struct {
	Message string          `json:"message"`
	URL     string          `json:"documentation_url"`
	Raw     json.RawMessage `json:"errors"`
	errors  []problem
}

// details are those of every error that comes from an answer.
type details struct {
	Status           int       `json:"status"`
	RequestID        string    `json:"requestId,omitempty"`
	DocumentationURL string    `json:"documentationUrl,omitempty"`
	Errors           []problem `json:"errors,omitempty"`
	// Permissions is what a fine-grained token would need.
	Permissions string `json:"acceptedPermissions,omitempty"`
	// SSO is how an organisation wants the token to be authorised.
	SSO string `json:"sso,omitempty"`
	// Outcome is unknown where a comment may have been posted all the same.
	Outcome string `json:"outcome,omitempty"`
}

// rateDetails are those of rate_limited.
type rateDetails struct {
	Status            int    `json:"status"`
	ResetUnix         int64  `json:"resetUnix"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds"`
	Resource          string `json:"resource,omitempty"`
	RequestID         string `json:"requestId,omitempty"`
}

func readComplaint(body []byte) complaint {
	var c complaint
	_ = json.Unmarshal(body, &c) // a proxy's page is no JSON: the status says enough
	if json.Unmarshal(c.Raw, &c.errors) != nil {
		c.errors = nil
	}
	c.Message, c.URL = brief(c.Message), brief(c.URL)
	c.errors = c.errors[:min(len(c.errors), maxProblems)]
	return c
}

// brief cuts a server's text and takes control characters out.
func brief(s string) string {
	s, cut := clip(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s), maxSaid)
	if cut {
		s += "…"
	}
	return s
}

// clip cuts a text after at most n bytes, between two characters.
func clip(s string, n int) (text string, cut bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n], true
}

// statusError is the error of an answer that is no success.
func (c *client) statusError(r request, res *pdk.HTTPResponse) error {
	said := readComplaint(res.Body)
	if limited(res, said) {
		return c.rateLimited(res, said)
	}
	d := details{Status: res.Status, RequestID: brief(header(res, "x-github-request-id")), DocumentationURL: said.URL, Errors: said.errors}
	quote := ""
	if said.Message != "" {
		quote = fmt.Sprintf(" (GitHub says: %s)", said.Message)
	}
	fail := func(code, format string, args ...any) *pdk.Error {
		return pdk.Errorf(code, "%s", fmt.Sprintf(format, args...)+quote).With(d)
	}
	switch {
	case res.Status == 401 && !c.token:
		return tokenRequired(r.about)
	case res.Status == 401:
		return fail("unauthorized", "GitHub does not accept the secret %s: it is wrong, expired or revoked; the user sets another with: bladehost secret set %s", tokenName, tokenName)
	case res.Status == 403:
		d.Permissions, d.SSO = brief(header(res, "x-accepted-github-permissions")), brief(header(res, "x-github-sso"))
		return fail("forbidden", "GitHub forbids it for %s: %s", r.about, c.whoMay())
	case res.Status == 404:
		return fail("not_found", "%s was not found, or is not to be seen: %s", r.about, c.whoMay()).WithType(abi.TypeValidation)
	case res.Status == 410:
		return fail("gone", "%s is gone: it was deleted, or issues are disabled there", r.about).WithType(abi.TypeValidation)
	case res.Status == 409:
		return fail("conflict", "%s cannot be had as it is now; an empty repository answers so", r.about)
	case res.Status == 400 || res.Status == 422:
		return fail("validation", "GitHub does not take the request for %s: %s", r.about, problemText(said.errors)).WithType(abi.TypeValidation)
	case res.Status >= 300 && res.Status < 400:
		return fail("moved", "%s has moved", r.about)
	case res.Status >= 500 || res.Status == 408:
		if !r.get() {
			d.Outcome = "unknown"
			return fail("server_error", "GitHub failed with the status %d; %s", res.Status, unknownOutcome).WithType(abi.TypeNetwork)
		}
		return fail("server_error", "GitHub failed with the status %d; try again later", res.Status).WithType(abi.TypeNetwork)
	}
	return fail("unexpected_status", "GitHub answered the request for %s with the status %d", r.about, res.Status)
}

const unknownOutcome = "it is not known whether the comment was posted: look at the comments before another try"

func (c *client) whoMay() string {
	if c.token {
		return "the token may not have the permission, or not for this repository"
	}
	return "without a token only public repositories are to be seen; " + howToken
}

const howToken = "the user grants one with --allow-secret " + tokenName + " and sets it with: bladehost secret set " + tokenName

func tokenRequired(what string) *pdk.Error {
	return pdk.Errorf("token_required", "%s needs a token of GitHub: %s", what, howToken).
		With(map[string]any{"secret": tokenName, "flag": "--allow-secret"})
}

func problemText(list []problem) string {
	var parts []string
	for _, p := range list {
		text := p.Message
		if text == "" {
			text = strings.TrimSpace(p.Field + " " + p.Code)
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return "see its message"
	}
	return brief(strings.Join(parts, "; "))
}

// limited reports whether an answer is about a rate limit: a primary one has no
// requests left, a secondary one says so in words or with Retry-After.
func limited(res *pdk.HTTPResponse, said complaint) bool {
	if res.Status == 429 {
		return true
	}
	text := strings.ToLower(said.Message)
	return res.Status == 403 && (header(res, "retry-after") != "" || header(res, "x-ratelimit-remaining") == "0" ||
		strings.Contains(text, "rate limit") || strings.Contains(text, "abuse detection"))
}

func (c *client) rateLimited(res *pdk.HTTPResponse, said complaint) error {
	now := time.Now()
	d := rateDetails{Status: res.Status, Resource: brief(header(res, "x-ratelimit-resource")), RequestID: brief(header(res, "x-github-request-id"))}
	reset, err := strconv.ParseInt(header(res, "x-ratelimit-reset"), 10, 64)
	after, told := retryAfter(res, now)
	switch {
	case told:
		d.RetryAfterSeconds = int64(after.Seconds())
	case err == nil && header(res, "x-ratelimit-remaining") == "0" && reset > 0 && reset < now.Unix()+maxRetryAfter:
		d.RetryAfterSeconds = max(0, reset-now.Unix())
	default:
		d.RetryAfterSeconds = patience
	}
	d.ResetUnix = now.Unix() + d.RetryAfterSeconds
	text := fmt.Sprintf("GitHub's rate limit is reached; it is free again in %d s, at %s", d.RetryAfterSeconds, time.Unix(d.ResetUnix, 0).UTC().Format(time.RFC3339))
	if !c.token {
		text += "; with a token the limit is much higher: " + howToken
	}
	if said.Message != "" {
		text += fmt.Sprintf(" (GitHub says: %s)", said.Message)
	}
	return pdk.Errorf("rate_limited", "%s", text).WithType(abi.TypeNetwork).With(d)
}

// failure is the error of a request that got no answer. What the host says about
// grants stays as it is.
func (c *client) failure(r request, err error) error {
	var stop *pdk.CancelError
	var said *abi.Error
	if errors.As(err, &stop) || !errors.As(err, &said) {
		return err
	}
	switch said.Code {
	case abi.CodeNotDeclared:
		return pdk.Errorf("host_not_declared", "%s; the setting baseUrl names a host that this build of the plugin does not ask for: add it to hosts.go and build the plugin anew, see GitHub Enterprise in its README", said.Message)
	case abi.CodeNetFailed, abi.CodeNetLimit:
		e := pdk.Errorf("network_error", "%s did not answer as it should: %s", c.origin, said.Message).WithType(abi.TypeNetwork)
		if said.Code == abi.CodeNetLimit {
			e.Code = "network_limit"
		}
		if !r.get() {
			e.Message += "; " + unknownOutcome
			return e.With(map[string]any{"outcome": "unknown"})
		}
		return e
	}
	return err
}

// badAnswer is the error of an answer that does not have GitHub's form.
func badAnswer(about, format string, args ...any) *pdk.Error {
	return pdk.Errorf("bad_answer", "the answer for %s is not what GitHub's API gives: %s; is baseUrl right?", about, fmt.Sprintf(format, args...)).WithType(abi.TypeNetwork)
}
