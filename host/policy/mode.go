package policy

import (
	"fmt"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/tool"
)

// Mode is how much a session allows without asking.
type Mode string

// Modes. The zero value means ModeDefault.
const (
	// ModeDefault asks for everything that is not read-only.
	ModeDefault Mode = "default"
	// ModeAutoEdit also allows kind write.
	ModeAutoEdit Mode = "autoEdit"
	// ModeYolo allows all but destructive calls.
	ModeYolo Mode = "yolo"
	// ModePlan allows read-only calls and denies all others.
	ModePlan Mode = "plan"
)

// ParseMode accepts the four modes, the names accept-edits and
// bypass-permissions for autoEdit and yolo, and "" for the default.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "":
		return ModeDefault, nil
	case "accept-edits":
		return ModeAutoEdit, nil
	case "bypass-permissions":
		return ModeYolo, nil
	}
	switch m := Mode(s); m {
	case ModeDefault, ModeAutoEdit, ModeYolo, ModePlan:
		return m, nil
	}
	return "", abi.NewError(abi.CodeOptions, "%q is no permission mode; there are default, autoEdit, yolo and plan", s)
}

// Judge is what the mode alone says about a call, with the reason.
func (m Mode) Judge(b tool.Behavior, approved bool) (tool.PermissionBehavior, string) {
	switch {
	case m == ModePlan && !b.ReadOnly:
		return tool.PermissionDeny, "plan mode allows only read-only calls"
	case approved:
		return tool.PermissionAllow, "it was approved for the session"
	case b.ReadOnly:
		return tool.PermissionAllow, "it is read-only"
	case m == ModeYolo && b.Destructive:
		return tool.PermissionAsk, "it is destructive, which even yolo mode asks about"
	case m == ModeYolo:
		return tool.PermissionAllow, "yolo mode allows it"
	case m == ModeAutoEdit && b.Kind == abi.KindWrite:
		return tool.PermissionAllow, "autoEdit mode allows kind write"
	}
	return tool.PermissionAsk, fmt.Sprintf("mode %s asks about kind %s", m.orDefault(), b.Kind)
}

func (m Mode) orDefault() Mode {
	if m == "" {
		return ModeDefault
	}
	return m
}
