package admin

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// field is a field of a struct as JSON has it.
type field struct {
	name  string
	index []int  // from the struct on, through those that it embeds
	each  string // "name" of an owner
	omit  bool
	must  bool
	owner bool
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	errorType    = reflect.TypeFor[error]()
	bytesType    = reflect.TypeFor[[]byte]()
)

// plans are the fields of types that were asked for before.
var plans sync.Map // reflect.Type → []field

func fieldsOf(t reflect.Type) []field {
	if known, ok := plans.Load(t); ok {
		return known.([]field)
	}
	all := collect(t, nil)
	slices.SortStableFunc(all, func(a, b field) int { return len(a.index) - len(b.index) })
	var plan []field
	for _, f := range all {
		if !slices.ContainsFunc(plan, func(o field) bool { return o.name == f.name }) {
			plan = append(plan, f)
		}
	}
	// As they are declared, with what is embedded in its place.
	slices.SortStableFunc(plan, func(a, b field) int { return slices.Compare(a.index, b.index) })
	plans.Store(t, plan)
	return plan
}

// collect lists the fields of a struct and of those that it embeds.
func collect(t reflect.Type, at []int) (all []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		name, options, _ := strings.Cut(f.Tag.Get("wire"), ",")
		has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
		switch {
		case name == "-", f.Type.Kind() == reflect.Interface && f.Type != errorType, f.Type.Kind() == reflect.Func:
			continue
		case f.Type.Kind() == reflect.Struct && (f.Anonymous && name == "" || has("inline")):
			all = append(all, collect(f.Type, index)...)
			continue
		case !f.IsExported():
			continue
		case name == "" && f.Type == durationType:
			name = snake(f.Name) + "_seconds"
		case name == "":
			name = snake(f.Name)
		}
		_, each, _ := strings.Cut(options, "each=")
		if has("owner") {
			each = "name"
		}
		all = append(all, field{name, index, each, has("omit"), has("must"), has("owner")})
	}
	return all
}

// snake is the name of a field in small letters: EnqueuedAt is enqueued_at, and IDs are ids.
func snake(name string) string {
	var b strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]) && string(letters[i+1:]) != "s") {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// JobOf reads the name of a job as it is in explanations: queue/id, either quoted if
// it would not be clear otherwise. False: it is the name of no job.
func JobOf(name string) (queue, id string, ok bool) {
	if quoted, err := strconv.QuotedPrefix(name); err == nil && strings.HasPrefix(name, `"`) {
		queue, _ = strconv.Unquote(quoted)
		id, ok = strings.CutPrefix(name[len(quoted):], "/")
	} else {
		queue, id, ok = strings.Cut(name, "/")
	}
	if ok && strings.HasPrefix(id, `"`) {
		var err error
		id, err = strconv.Unquote(id)
		ok = err == nil
	}
	if !ok {
		return "", "", false
	}
	return queue, id, true
}
