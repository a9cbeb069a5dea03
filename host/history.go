package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/bladehost/bladehost/abi"
)

// maxHistory bounds the execution history of a session.
const maxHistory = 1000

// HistoryEntry is one finished call. Input and Result are kept only with
// SessionOptions.KeepPayloads, else their SHA-256.
type HistoryEntry struct {
	ExecutionID  string          `json:"executionId"`
	ToolCallID   string          `json:"toolCallId"`
	ToolName     string          `json:"toolName"`
	Status       abi.Status      `json:"status"`
	Code         abi.Code        `json:"code,omitempty"`
	InputSHA256  Digest          `json:"inputSha256"`
	ResultSHA256 Digest          `json:"resultSha256"`
	Input        json.RawMessage `json:"input,omitempty"`
	Result       *abi.Result     `json:"result,omitempty"`
	Start        time.Time       `json:"startTime"`
	End          time.Time       `json:"endTime"`
}

// Stats sums up the calls of a session since it began.
type Stats struct {
	Total   int            `json:"total"`
	Success int            `json:"success"`
	Failed  int            `json:"failed"`
	Mean    time.Duration  `json:"meanDuration"`
	PerTool map[string]int `json:"perTool"`
	Recent  []HistoryEntry `json:"recent"`
}

type history struct {
	mu      sync.Mutex
	ring    []HistoryEntry
	next    int
	total   int
	success int
	spent   time.Duration
	perTool map[string]int
}

func (h *history) add(e HistoryEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.perTool == nil {
		h.perTool = map[string]int{}
	}
	h.total++
	if e.Status == abi.StatusSuccess {
		h.success++
	}
	h.spent += e.End.Sub(e.Start)
	h.perTool[e.ToolName]++
	if len(h.ring) < maxHistory {
		h.ring = append(h.ring, e)
		return
	}
	h.ring[h.next] = e
	h.next = (h.next + 1) % maxHistory
}

func (h *history) list() []HistoryEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(slices.Clone(h.ring[h.next:]), h.ring[:h.next]...)
}

func (h *history) stats() Stats {
	list := h.list()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Stats{Total: h.total, Success: h.success, Failed: h.total - h.success, PerTool: map[string]int{}}
	for k, v := range h.perTool {
		s.PerTool[k] = v
	}
	if h.total > 0 {
		s.Mean = h.spent / time.Duration(h.total)
	}
	s.Recent = list[max(0, len(list)-10):]
	return s
}

// Digest is a SHA-256. Its text is hex.
type Digest [sha256.Size]byte

// String is the digest in hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText is the digest in hex.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// History lists the last 1000 calls, oldest first.
func (s *Session) History() []HistoryEntry { return s.history.list() }

// Stats sums up the calls of the session.
func (s *Session) Stats() Stats { return s.history.stats() }
