package world

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// line is a part of the configuration, or a step: a verb with arguments, and in text
//
//	enqueue id=a n=7 plan=fail/ok q=q1 &
//
// where the & says that it begins together with the next one.
type line struct {
	verb string
	args map[string]string
	with bool
}

// script is a world as a text: the configuration, then what happens, one line each.
type script []line

func newLine(verb string, pairs ...any) line {
	l := line{verb: verb, args: make(map[string]string)}
	for i := 0; i+1 < len(pairs); i += 2 {
		l.set(pairs[i].(string), pairs[i+1])
	}
	return l
}

// set sets an argument, which must have no space.
func (l line) set(name string, value any) { l.args[name] = fmt.Sprint(value) }

func (l line) str(name string) string { return l.args[name] }

func (l line) has(name string) bool { return l.args[name] != "" }

func (l line) num(name string) int {
	n, _ := strconv.Atoi(l.args[name])
	return n
}

func (l line) dur(name string) time.Duration {
	d, _ := time.ParseDuration(l.args[name])
	return d
}

func (l line) clone() line { return line{l.verb, maps.Clone(l.args), l.with} }

// String is the line as text.
func (l line) String() string {
	words := []string{l.verb}
	for _, name := range slices.Sorted(maps.Keys(l.args)) {
		words = append(words, name+"="+l.args[name])
	}
	if l.with {
		words = append(words, "&")
	}
	return strings.Join(words, " ")
}

// String is the script as text.
func (s script) String() string {
	var b strings.Builder
	for _, l := range s {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

// parse reads what String has written. Empty lines and those that begin with # are
// for people.
func parse(text string) (s script, err error) {
	scanner := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		words := strings.Fields(scanner.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		l := newLine(words[0])
		for _, word := range words[1:] {
			name, value, pair := strings.Cut(word, "=")
			switch {
			case word == "&":
				l.with = true
			case pair && name != "" && value != "":
				l.args[name] = value
			default:
				return nil, fmt.Errorf("line %d: %q is no argument: it must be name=value", n, word)
			}
		}
		s = append(s, l)
	}
	return s, scanner.Err()
}
