package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// text is bytes in JSON without loss: a string when they are UTF-8, otherwise
// {"base64": "…"}.
type text []byte

type inBase64 struct {
	Base64 *[]byte `json:"base64"`
}

// MarshalJSON implements [json.Marshaler].
func (t text) MarshalJSON() ([]byte, error) {
	if isPlain(t) { // as nearly all are
		b := append(make([]byte, 0, len(t)+len(t)/4+2), '"')
		for _, c := range t {
			if c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, c)
		}
		return append(b, '"'), nil
	}
	if utf8.Valid(t) {
		return unescaped(string(t))
	}
	b := []byte(t)
	return unescaped(inBase64{&b})
}

// unescaped leaves <, > and & as they are.
func unescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var v inBase64
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		if v.Base64 == nil {
			return fmt.Errorf("an object without %q where a text should be", "base64")
		}
		*t = *v.Base64
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = text(s)
	return nil
}

// score is a float64 in JSON without loss. JSON has no NaN and no infinity.
type score float64

// MarshalJSON implements [json.Marshaler].
func (s score) MarshalJSON() ([]byte, error) {
	if f := float64(s); math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(strconv.FormatFloat(f, 'g', -1, 64))
	}
	return []byte(strconv.FormatFloat(float64(s), 'g', -1, 64)), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *score) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	*s = score(f)
	return err
}

// moment is a time of a journal in JSON, to the nanosecond.
type moment int64

// MarshalJSON implements [json.Marshaler].
func (m moment) MarshalJSON() ([]byte, error) {
	return timeOf(int64(m)).AppendFormat([]byte{'"'}, time.RFC3339Nano+`"`), nil
}

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
