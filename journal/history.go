package journal

import (
	"encoding/binary"
	"unicode/utf8"
)

// Failure is one failed run of a job.
type Failure struct {
	Attempt int   // 1, 2, 3, …
	At      int64 // Unix nanoseconds
	Text    string
}

// History are the last failures of a job, as they stand in the log: the newest
// [HistoryFailures]. Empty: none is known.
//
// The text of the newest is not in it. It stands beside it in the log already, as
// [Entry].Error or [Buried].Reason.
type History []byte

// What a history keeps. Texts are those of older failures; that of the newest is kept
// whole.
const (
	HistoryFailures  = 5
	HistoryTextBytes = 1 << 10
)

// Add returns the history with one more failure. last is the text of the one that was
// the newest so far.
func (h History) Add(last string, attempt int, at int64) History {
	old := h.Failures(last)
	if len(old) >= HistoryFailures {
		old = old[len(old)-HistoryFailures+1:]
	}
	more := make(History, 0, 16)
	for _, f := range old {
		more = appendText(more.add(f.Attempt, f.At), shortened(f.Text))
	}
	return append(more.add(attempt, at), 0)
}

func (h History) add(attempt int, at int64) History {
	return binary.AppendVarint(binary.AppendUvarint(h, uint64(attempt)), at)
}

// shortened cuts a text, and leaves no part of a character.
func shortened(text string) string {
	end := len(text)
	for end > HistoryTextBytes || end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Failures returns the failures, oldest first. last is the text of the newest. Bytes that make no
// sense end it.
func (h History) Failures(last string) (list []Failure) {
	for d := (decoder{b: h}); d.off < len(h) && len(list) < HistoryFailures; {
		f := Failure{Attempt: int(d.uvarint()), At: d.varint(), Text: string(d.bytes(d.uvarint()))}
		if d.err != nil {
			break
		}
		list = append(list, f)
	}
	if n := len(list); n > 0 {
		list[n-1].Text = last
	}
	return list
}
