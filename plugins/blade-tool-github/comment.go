package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/pdk"
)

// maxComment is GitHub's bound of a comment, in characters.
const maxComment = 65_536

type commentIn struct {
	Owner  string `json:"owner" jsonschema:"The user or organisation that owns the repository." minLength:"1" maxLength:"100"`
	Repo   string `json:"repo" jsonschema:"The repository's name, without its owner." minLength:"1" maxLength:"100"`
	Number int64  `json:"number" jsonschema:"The number of the issue or the pull request." minimum:"1" maximum:"2147483647"`
	Body   string `json:"body" jsonschema:"The comment, in Markdown." minLength:"1" maxLength:"65536"`
}

type posted struct {
	Posted     bool   `json:"posted"`
	Repository string `json:"repository"`
	Number     int64  `json:"number"`
	ID         int64  `json:"id,omitempty"`
	Author     string `json:"author,omitempty"`
	CreatedAt  string `json:"createdAt,omitempty"`
	URL        string `json:"url,omitempty"`
	Note       string `json:"note,omitempty"`
}

func comment(ctx context.Context, in commentIn, call *pdk.Call) (*pdk.Result, error) {
	at, err := repoPath(in.Owner, in.Repo)
	if err != nil {
		return nil, err
	}
	if err := checkNumber(in.Number); err != nil {
		return nil, err
	}
	if strings.TrimSpace(in.Body) == "" || utf8.RuneCountInString(in.Body) > maxComment {
		return nil, pdk.Invalid("bad_body", "the comment is empty, or has more than %d characters", maxComment)
	}
	c, err := connect(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := c.needToken("a comment"); err != nil {
		return nil, err
	}
	body, err := abi.Marshal(map[string]string{"body": in.Body})
	if err != nil {
		return nil, err
	}
	about := fmt.Sprintf("number %d of %s/%s", in.Number, in.Owner, in.Repo)
	res, _, err := c.send(request{method: "POST", url: c.base + at + "/issues/" + strconv.FormatInt(in.Number, 10) + "/comments", body: body, about: about})
	if errors.Is(err, &pdk.Error{Code: "moved"}) {
		return nil, c.moved(at, err)
	}
	if err != nil {
		return nil, err
	}
	out := posted{Posted: true, Repository: in.Owner + "/" + in.Repo, Number: in.Number}
	var a apiComment
	if json.Unmarshal(res.Body, &a) == nil && a.ID != 0 {
		out.ID, out.Author, out.CreatedAt, out.URL = a.ID, a.User.name(), a.CreatedAt, a.HTMLURL
	} else {
		// An error would invite to post it again.
		out.Note = "GitHub took the comment, but its answer could not be read"
	}
	return shown(out, "Commented on %s", about), nil
}

// moved says under which name a renamed repository is now. Nothing was posted.
func (c *client) moved(at string, err error) error {
	var a apiRepo
	if _, _, e := c.object(at, "", "", "the repository", &a); e != nil || a.FullName == "" {
		return err
	}
	return pdk.Invalid("moved", "nothing was posted: the repository is %s now; call again with that owner and repo", brief(a.FullName)).
		With(map[string]any{"repository": brief(a.FullName)})
}
