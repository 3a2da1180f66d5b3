package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Decode reads a request into a struct; see the package comment for what it refuses.
func Decode(text []byte, to any) error {
	return decoder{strict: true}.fields(text, "the request", reflect.ValueOf(to).Elem())
}

// Read reads an answer into a struct. It may have fields that the struct has not.
func Read(text []byte, to any) error {
	return decoder{}.fields(text, "the answer", reflect.ValueOf(to).Elem())
}

type decoder struct{ strict bool }

// Object reads a JSON object and gives each field to set, because encoding/json would ignore
// case, duplicates and null. It returns errors of set as they are; in all others the object
// is called by the text in what.
func Object(text []byte, what string, set func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s ends too early: it must be an object, {…}", what)
		}
		return fmt.Errorf("%s is no JSON: %w", what, err)
	}
	if begin, err := d.Token(); err != nil {
		return broken(err)
	} else if begin != json.Delim('{') {
		return fmt.Errorf("%s must be an object, {…}", what)
	}
	has := make(map[string]bool)
	for d.More() {
		var value json.RawMessage
		token, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return broken(err)
		}
		name := token.(string)
		switch {
		case string(value) == "null":
			return fmt.Errorf("%.40s is null: leave it out, or say what is meant", name)
		case has[name]:
			return fmt.Errorf("%.40s is there twice; once is what it may be", name)
		}
		has[name] = true
		if err := set(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return broken(err)
	}
	if at := d.InputOffset(); len(bytes.TrimSpace(text[at:])) > 0 {
		return fmt.Errorf("%s has more behind it, at byte %d", what, at)
	}
	return nil
}

// fields reads an object into a struct.
func (d decoder) fields(text []byte, what string, to reflect.Value) error {
	plan, has := fieldsOf(to.Type()), make(map[string]bool)
	err := Object(text, what, func(name string, value json.RawMessage) error {
		for _, f := range plan {
			if f.name == name {
				has[name] = true
				return d.value(value, name, f, to.FieldByIndex(f.index))
			}
		}
		if d.strict {
			return fmt.Errorf("there is no field %.40q", name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range plan {
		if d.strict && f.must && !has[f.name] {
			return fmt.Errorf("%s is missing", f.name)
		}
	}
	return nil
}

// value reads what a field has.
func (d decoder) value(text json.RawMessage, name string, f field, to reflect.Value) (err error) {
	switch {
	case to.Type() == timeType:
		err = must("a time, as 2026-01-02T15:04:05Z", json.Unmarshal(text, to.Addr().Interface()))
	case to.Type() == durationType:
		err = readSeconds(text, to)
	case to.Type() == errorType:
		var said string
		said, err = TextIn(text)
		to.Set(reflect.ValueOf(errors.New(said)))
	case to.Kind() == reflect.Struct:
		return d.fields(text, name, to)
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return d.value(text, name, f, to.Elem())
	case to.Kind() == reflect.Slice && to.Type() != bytesType:
		return d.list(text, name, f, to)
	case to.Kind() == reflect.Map:
		return d.pairs(text, name, to)
	default:
		err = plainValue(text, f, to)
	}
	if err != nil {
		return fmt.Errorf("%s is %.40s: %w", name, text, err)
	}
	return nil
}

// readSeconds reads what appendSeconds wrote without loss: a float64 has whole nanoseconds for a hundred days, and at
// the end of all durations it would be one that is none.
func readSeconds(text json.RawMessage, to reflect.Value) error {
	_, digits, _ := strings.Cut(string(text), ".")
	if d, err := time.ParseDuration(string(text) + "s"); err == nil && len(digits) <= 9 {
		to.SetInt(int64(d))
		return nil
	}
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err == nil && math.Abs(seconds) >= math.MaxInt64/1e9 {
		return errors.New("that is beyond what a duration can be")
	}
	to.SetInt(int64(math.Round(seconds * float64(time.Second))))
	return must("a number of seconds", err)
}

// plainValue reads a text, a number or a truth.
func plainValue(text json.RawMessage, f field, to reflect.Value) error {
	switch to.Kind() {
	case reflect.String:
		said, err := textOf(text, f)
		to.SetString(said)
		return err
	case reflect.Slice:
		said, err := TextIn(text)
		to.SetBytes([]byte(said))
		return err
	case reflect.Float64:
		n, err := strconv.ParseFloat(string(bytes.Trim(text, `"`)), 64)
		to.SetFloat(n)
		return must("a number", err)
	case reflect.Bool:
		return must("true or false", json.Unmarshal(text, to.Addr().Interface()))
	}
	return must("a whole number, and not beyond what there can be", json.Unmarshal(text, to.Addr().Interface()))
}

// must says what a value must be, in words of ours.
func must(what string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New("it must be " + what)
}

// textOf reads a text. For a field that is tagged each=NAME it is the text under NAME in an object.
func textOf(text json.RawMessage, f field) (said string, err error) {
	if f.each == "" {
		return TextIn(text)
	}
	err = Object(text, "it", func(field string, value json.RawMessage) (err error) {
		if field == f.each {
			said, err = TextIn(value)
		}
		return err
	})
	return said, err
}

// replaced stands for bytes that are no text, unless it is what was said.
const replaced = "\uFFFD"

// TextIn reads a text: a string, or {"base64": "…"}.
func TextIn(text json.RawMessage) (said string, err error) {
	if len(text) == 0 || text[0] != '{' {
		err = must(`a text, or {"base64": "…"}`, json.Unmarshal(text, &said))
		if strings.Count(said, replaced) > bytes.Count(text, []byte(replaced))+bytes.Count(bytes.ToLower(text), []byte(`\ufffd`)) {
			err = errors.New(`it is no text: give its bytes as {"base64": "…"}`)
		}
		return said, err
	}
	var inBase64 []byte
	found := false
	err = Object(text, "it", func(name string, value json.RawMessage) error {
		if found = name == "base64"; !found {
			return fmt.Errorf("an object with %.40q where a text should be", name)
		}
		return must("in base64", json.Unmarshal(value, &inBase64))
	})
	if err == nil && !found {
		err = errors.New(`an object without "base64" where a text should be`)
	}
	return string(inBase64), err
}

func (d decoder) list(text json.RawMessage, name string, f field, to reflect.Value) error {
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s is %.40s: it must be a list", name, text)
	}
	list := reflect.MakeSlice(to.Type(), len(all), len(all))
	for i, each := range all {
		if string(each) == "null" {
			return fmt.Errorf("one of %s is null", name)
		}
		if err := d.value(each, "one of "+name, f, list.Index(i)); err != nil {
			return err
		}
	}
	to.Set(list)
	return nil
}

func (d decoder) pairs(text json.RawMessage, name string, to reflect.Value) error {
	to.Set(reflect.MakeMap(to.Type()))
	return Object(text, name, func(key string, value json.RawMessage) error {
		v := reflect.New(to.Type().Elem()).Elem()
		if err := d.value(value, key, field{}, v); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(key), v)
		return nil
	})
}
