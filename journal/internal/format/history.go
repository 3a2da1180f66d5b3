package format

import (
	"encoding/binary"
	"slices"
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
// The text of the newest is not in it: it stands beside it in the log, as
// [Entry].Error or [Buried].Reason. Neither is a text that is the same as that of the
// next failure, so that an outage, at which all jobs fail alike, takes little room.
type History []byte

// What a history keeps. Texts are those of older failures; that of the newest is kept
// whole.
const (
	HistoryFailures  = 5
	HistoryTextBytes = 1 << 10
)

// Add returns the history with one more failure. last is the text of the one that was
// the newest so far.
func (h History) Add(last string, f Failure) (more History) {
	list := append(h.Failures(last), f)
	list = list[max(0, len(list)-HistoryFailures):]
	for i, f := range list {
		text := ""
		if i+1 < len(list) && f.Text != list[i+1].Text {
			text = shortened(f.Text)
		}
		more = binary.AppendVarint(binary.AppendUvarint(more, uint64(f.Attempt)), f.At)
		more = AppendText(more, text)
	}
	return more
}

// Valid reports whether all of its bytes make sense.
func (h History) Valid() bool {
	return valid(h, func(d *Decoder) {
		d.Uvarint()
		d.Varint()
		d.Bytes(d.Uvarint())
	})
}

// shortened cuts a text, and leaves no part of a character.
func shortened(text string) string {
	end := min(len(text), HistoryTextBytes)
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Failures returns the failures, oldest first. last is the text of the newest. Bytes
// that make no sense end the list.
func (h History) Failures(last string) (list []Failure) {
	for d := (Decoder{B: h}); d.Off < len(h) && len(list) < HistoryFailures; {
		f := Failure{Attempt: int(d.Uvarint()), At: d.Varint(), Text: string(d.Bytes(d.Uvarint()))}
		if d.Err != nil {
			break
		}
		list = append(list, f)
	}
	for i, f := range slices.Backward(list) {
		if f.Text == "" || i == len(list)-1 {
			list[i].Text = last
		}
		last = list[i].Text
	}
	return list
}
