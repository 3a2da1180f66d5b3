package serving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Object reads an object, of which set gets each field. Field by field: read into a
// struct, Queue would be taken for queue, the last of two for both, and null for none. An
// error of set is returned as it is; what is what the object is called in the others.
func Object(text []byte, what string, set func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s ends too early: it must be an object, {…}", what)
		}
		return fmt.Errorf("%s is no JSON: %w", what, err)
	}
	begin, err := d.Token()
	switch {
	case err != nil:
		return broken(err)
	case begin != json.Delim('{'):
		return fmt.Errorf("%s must be an object, {…}", what)
	}
	for d.More() {
		var value json.RawMessage
		name, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		switch {
		case err != nil:
			return broken(err)
		case string(value) == "null":
			return fmt.Errorf("%.40s is null: leave it out, or say what is meant", name)
		}
		if err := set(name.(string), value); err != nil {
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

// Decode reads a request into a struct. A field that the struct does not have is an error,
// and so is one that is there twice, and one that is missing whose tag has no omitempty:
// a false that nobody has said must not do anything.
func Decode(text []byte, to any) error {
	fields := reflect.ValueOf(to).Elem()
	has := make(map[string]bool)
	err := Object(text, "the request", func(name string, value json.RawMessage) error {
		if has[name] {
			return fmt.Errorf("%s is there twice; once is what it may be", name)
		}
		has[name] = true
		for i := range fields.NumField() {
			if named, _ := tagOf(fields.Type().Field(i)); named == name {
				if err := json.Unmarshal(value, fields.Field(i).Addr().Interface()); err != nil {
					return fmt.Errorf("%s is %.40s: %w", name, value, err)
				}
				return nil
			}
		}
		return fmt.Errorf("there is no field %.40q", name)
	})
	if err != nil {
		return err
	}
	for i := range fields.NumField() {
		if name, may := tagOf(fields.Type().Field(i)); !may && !has[name] {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

// tagOf returns the name of a field, and whether it may be left out.
func tagOf(f reflect.StructField) (name string, may bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, options == "omitempty"
}
