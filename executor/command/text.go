package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
)

// text is bytes in JSON without loss: a string when they are UTF-8, otherwise
// {"base64": "…"}.
type text []byte

// MarshalJSON implements [json.Marshaler].
func (t text) MarshalJSON() ([]byte, error) { return admin.Encode([]byte(t)) }

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	s, err := admin.TextIn(b)
	*t = text(s)
	return err
}

// score is a float64 in JSON without loss. JSON has no NaN and no infinity.
type score float64

// MarshalJSON implements [json.Marshaler].
func (s score) MarshalJSON() ([]byte, error) { return admin.Encode(float64(s)) }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *score) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	*s = score(f)
	return err
}

// moment is a time of a journal in JSON, to the nanosecond.
type moment int64

// MarshalJSON implements [json.Marshaler].
func (m moment) MarshalJSON() ([]byte, error) { return admin.Encode(timeOf(int64(m))) }

// UnmarshalJSON implements [json.Unmarshaler].
func (m *moment) UnmarshalJSON(b []byte) error {
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	*m = moment(t.UnixNano())
	if !timeOf(int64(*m)).Equal(t) {
		return fmt.Errorf("the time %s is beyond what a journal can say", b)
	}
	return nil
}
