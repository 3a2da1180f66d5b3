package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Encode returns v as JSON. It fails only for what no field of an answer is, a channel for
// example.
func Encode(v any) ([]byte, error) { return encode(nil, reflect.ValueOf(v), field{}) }

// Line returns v as one line of JSON that says of what type it is first: v is a struct.
func Line(kind string, v any) ([]byte, error) {
	rest, err := Encode(v)
	if err != nil {
		return nil, err
	}
	line := append(appendText([]byte(`{"type":`), kind), ',')
	if string(rest) == "{}" {
		line = line[:len(line)-1]
	}
	return append(append(line, rest[1:]...), '\n'), nil
}

// encode encodes a value, which may be of a field, or in a list of it.
func encode(b []byte, v reflect.Value, f field) ([]byte, error) {
	switch t := v.Type(); {
	case f.each != "" && v.Kind() == reflect.String:
		return appendObject(b, v.String(), f), nil
	case t == timeType:
		return v.Interface().(time.Time).UTC().AppendFormat(b, `"`+time.RFC3339Nano+`"`), nil
	case t == durationType:
		return appendSeconds(b, time.Duration(v.Int())), nil
	case t.Implements(errorType):
		return appendText(b, v.Interface().(error).Error()), nil
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float64:
		return appendNumber(b, v.Float()), nil
	case reflect.String:
		return appendText(b, v.String()), nil
	case reflect.Pointer, reflect.Interface:
		return encode(b, v.Elem(), f)
	case reflect.Slice:
		return encodeList(b, v, f)
	case reflect.Map:
		return encodeMap(b, v)
	case reflect.Struct:
		return encodeStruct(b, v)
	}
	return nil, fmt.Errorf("admin: there is no JSON for %v", v.Type())
}

func encodeStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	begin := len(b)
	for _, f := range fieldsOf(v.Type()) {
		value := v.FieldByIndex(f.index)
		if absent(f, value) {
			continue
		}
		if len(b) > begin {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.name...), '"', ':')
		if b, err = encode(b, value, f); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// absent reports whether a field is left out.
func absent(f field, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.Map:
		return v.Len() == 0
	case reflect.Slice:
		return v.IsNil() && (f.omit || v.Type() == bytesType)
	}
	return v.IsZero() && (f.omit || f.owner || v.Type() == timeType)
}

// encodeList encodes a list, or bytes, which are a text.
func encodeList(b []byte, v reflect.Value, f field) (_ []byte, err error) {
	if v.Type() == bytesType {
		return appendText(b, string(v.Bytes())), nil
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = encode(b, v.Index(i), f); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// encodeMap encodes a map with texts as keys, in their order. A key that is no UTF-8 is quoted,
// or two of them could become one.
func encodeMap(b []byte, v reflect.Value) (_ []byte, err error) {
	byName := make(map[string]reflect.Value, v.Len())
	for key, value := range v.Seq2() {
		name := key.String()
		if !utf8.ValidString(name) {
			name = strconv.QuoteToASCII(name)
		}
		byName[name] = value
	}
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(byName)) {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = encode(append(appendText(b, name), ':'), byName[name], field{}); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendText appends a text of any bytes.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		b = base64.StdEncoding.AppendEncode(append(b, `{"base64":"`...), []byte(s))
		return append(b, `"}`...)
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				panic("admin: bug: " + err.Error()) // it is a text
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendSeconds appends a duration without loss: as many digits behind the point as it takes.
func appendSeconds(b []byte, d time.Duration) []byte {
	if d < 0 && d > -time.Second {
		b = append(b, '-') // of −0.5
	}
	b = fmt.Appendf(b, "%d.%09d", d/time.Second, (d % time.Second).Abs())
	return bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte("."))
}

func appendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(strconv.AppendFloat(append(b, '"'), f, 'g', -1, 64), '"')
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// appendObject appends {"NAME": text} for a field that is tagged each=NAME, and the queue and id in that text if the
// tag says owner.
func appendObject(b []byte, text string, f field) []byte {
	b = appendText(append(append(append(b, `{"`...), f.each...), `":`...), text)
	if queue, id, ok := JobOf(text); ok && f.owner {
		b = appendText(append(b, `,"job":{"queue":`...), queue)
		b = append(appendText(append(b, `,"id":`...), id), '}')
	}
	return append(b, '}')
}
